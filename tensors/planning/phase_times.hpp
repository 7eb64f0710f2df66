#pragma once
/// How long the phases of stages take on this machine, under schedules whose gradients stay in a stage and
/// under those whose gradients cross boundaries.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/planning/model_sizes.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Seconds of one stage.
struct PhaseSeconds {
  double forward = 0;   // of a micro-batch
  double backward = 0;  // of a micro-batch, with the local loss if the stage has one
  double step = 0;      // of a window, with the copy of weights that a schedule stashes

  /// Of a micro-batch in windows of so many.
  [[nodiscard]] double of_micro_batch(std::uint64_t accumulate) const {
    return forward + backward + step / static_cast<double>(accumulate);
  }
};

/// Runs stages of one layer, of two and of a few more of each kind (first, inner, last) through real
/// backends; larger ones are linear in their layers. All are run in turn, so that a machine that becomes
/// slower meanwhile slows all of them, and the fastest run of each counts, since whatever else the machine
/// does can only slow it down. Forwards, which are the same under all schedules, are taken together. By the
/// thread's own clock: the seconds of a core that does nothing else. All stages are trained. Not thread-safe;
/// the calling thread computes.
class PhaseTimes {
 public:
  /// `settings`: of a whole run, for each reach that will be asked for. `micro_batches`: of boundary 0, at
  /// least one; they stand for all of a run. `runs` of each stage, after one that is not looked at. Heads
  /// must not need a calibration.
  PhaseTimes(std::shared_ptr<const ModelFiles> model, std::map<GradientReach, TrainingSettings> settings,
             std::vector<Entry> micro_batches, int runs);

  PhaseSeconds of(const PlannedStage& stage, GradientReach reach);

 private:
  static constexpr std::int64_t layers_max = 4;

  struct Kind {
    bool first = false;
    bool last = false;
    auto operator<=>(const Kind&) const = default;
  };
  using OfReaches = std::map<GradientReach, PhaseSeconds>;
  using OfLayers = std::map<std::int64_t, OfReaches>;  // by the number of layers
  [[nodiscard]] std::vector<std::int64_t> layer_counts(const Kind& kind) const;
  void measure(const std::vector<Kind>& kinds);

  std::shared_ptr<const ModelFiles> model_;
  std::map<GradientReach, TrainingSettings> settings_;
  std::vector<Entry> micro_batches_;
  int runs_;
  std::map<Kind, OfLayers> known_;
};

}  // namespace zerolock
