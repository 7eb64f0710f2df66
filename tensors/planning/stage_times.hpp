#pragma once
/// How long stages take on this machine: small ones of every kind are run once, larger ones follow from them.

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/planning/model_sizes.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// Seconds that one micro-batch takes in stages of one kind, its share of a window's step included. By the
/// thread's own clock: those of a core that does nothing else.
struct StageSeconds {
  double one_layer = 0;
  double two_layers = 0;  // and from here on:
  double per_layer = 0;
  double readout = 0;    // part of these: the local loss; 0 in a stage that is not trained
  double embedding = 0;  // part of these: token ids to hidden states; 0 in all stages but the first

  [[nodiscard]] double of(std::int64_t layers) const {
    return layers == 1 ? one_layer : two_layers + static_cast<double>(layers - 2) * per_layer;
  }
};

/// Measures each kind of stage when it is first asked for: first, inner and last ones, trained or not. Runs
/// stages of one, two and five layers (fewer where the model has no more) through real backends, with
/// readouts whose fit is the identity. Not thread-safe; the calling thread computes.
class StageTimes {
 public:
  /// `micro_batches` (of boundary 0, at least one) stand for all of a run; `accumulate` of them make a
  /// window.
  StageTimes(std::shared_ptr<const ModelFiles> model, const TrainingSettings& settings,
             std::vector<Entry> micro_batches, std::int64_t accumulate);

  const StageSeconds& of(const PlannedStage& stage);

 private:
  struct Kind {
    bool first = false;
    bool last = false;
    bool trained = false;
    auto operator<=>(const Kind&) const = default;
  };
  [[nodiscard]] bool embeds(const Kind& kind) const { return kind.first && settings_.embeds(StageIndex{0}); }
  [[nodiscard]] StageSeconds measure(const Kind& kind) const;
  [[nodiscard]] double measure(const Kind& kind, std::int64_t layers) const;
  void measure_ends(const Kind& kind, StageSeconds& seconds) const;

  std::shared_ptr<const ModelFiles> model_;
  TrainingSettings settings_;
  std::vector<Entry> micro_batches_;
  std::int64_t accumulate_;
  std::map<Kind, StageSeconds> known_;
};

}  // namespace zerolock
