#pragma once
/// The failure that `bench recovery` measures: one stage of a pipeline is away for some windows, and comes
/// back. The stages' compute is simulated; processes, connections, buffers, checkpoints and restarts are not.

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/core/reports.hpp"
#include "data/micro_batch_provider.hpp"
#include "supervision/cluster_plan.hpp"
#include "tensors/training/simulated_backend.hpp"

namespace zerolock {

/// Windows are counted as the paper does: W0 is the run's first, which is window 1 everywhere else.
struct RecoveryShape {
  std::uint64_t stages = 3;
  std::uint64_t failing_stage = 1;   // neither the first nor the last
  std::uint64_t micro_batches = 8;   // of a window, one sequence each
  std::uint64_t windows_before = 4;  // W0..W3: trained by all stages
  /// W4..W7: the stage fails at the start of the first, and comes back when the stage before it has trained
  /// the last.
  std::uint64_t windows_away = 4;
  std::uint64_t windows_after = 4;  // W8..W11
  std::int64_t rows = 128;          // of a micro-batch
  std::int64_t width = 576;         // of a hidden state, fp32
  SimulatedCompute compute;

  [[nodiscard]] WindowIndex first_missed() const { return WindowIndex{windows_before + 1}; }
  [[nodiscard]] WindowIndex last_missed() const { return WindowIndex{windows_before + windows_away}; }
  [[nodiscard]] WindowIndex last() const { return WindowIndex{last_missed().value + windows_after}; }
  [[nodiscard]] bool missed(WindowIndex window) const {
    return first_missed() <= window && window <= last_missed();
  }

  /// Rows for all windows.
  [[nodiscard]] std::shared_ptr<const MicroBatchProvider> batches() const;
  /// All windows, with room for the stages that are not away to go on through those that are missed.
  [[nodiscard]] ClusterPlan plan() const;

  static constexpr std::int64_t vocabulary = 1000;
};

/// What crossed boundaries between stages.
struct Crossings {
  std::uint64_t entries = 0;  // hidden states, and gradients where a schedule sends them back
  std::uint64_t payload_bytes = 0;
  std::uint64_t wire_bytes = 0;  // with framing and metadata, without what TCP adds

  void add(std::uint64_t payload, std::uint64_t wire) {
    ++entries;
    payload_bytes += payload;
    wire_bytes += wire;
  }
};

/// How the missed windows were made up for.
struct RecoveryMeasure {
  double seconds = 0;                // until every stage has trained them
  double seconds_to_last_stage = 0;  // until the last stage has
  Crossings moved;                   // of these windows, meanwhile
  Crossings moved_again;             // of that, what had crossed the same boundary before the failure
  std::uint64_t state_bytes = 0;     // of checkpoints, to and from the coordinator
  std::vector<TraceSpan> spans;      // of the whole run
};

}  // namespace zerolock
