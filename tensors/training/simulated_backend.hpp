#pragma once
/// A stage backend without a model: deterministic numbers that depend on every input in order, so that a
/// lost, doubled or reordered micro-batch shows in the state; optional busy time per phase. For tests, and
/// for schedule and scale studies on machines too small for the real thing.

#include <chrono>
#include <cstdint>
#include <memory>

#include "tensors/training/stage_backend.hpp"

namespace zerolock {

struct SimulatedDurations {
  std::chrono::nanoseconds forward{0};
  std::chrono::nanoseconds backward{0};
  std::chrono::nanoseconds step{0};
  /// Whether the thread computes all that time, as a real stage does, or waits for its end: then a machine
  /// can have more stages than cores.
  bool occupies_core = true;
};

/// A stage's whole compute, made up.
struct SimulatedCompute {
  SimulatedDurations durations;
  std::int64_t state_bytes = 0;  // of a tensor of zeros in its state, which makes that as large as a real one
};

/// `width`: columns of the hidden state it makes. `calibrates`: it needs calibration before it trains, keeps
/// every row, gives targets as if it were the last stage, and what it trains depends on what it was fitted
/// to. `reach` beyond the stage: gradients of outputs count as inputs do, and those of the inputs depend on
/// them and on the weights that the micro-batch's forward had.
std::unique_ptr<StageBackend> make_simulated_backend(StageIndex stage, std::int64_t width,
                                                     SimulatedDurations durations = {},
                                                     bool calibrates = false,
                                                     GradientReach reach = GradientReach::stage);
/// The same, without calibration.
std::unique_ptr<StageBackend> make_simulated_backend(StageIndex stage, std::int64_t width,
                                                     const SimulatedCompute& compute,
                                                     GradientReach reach = GradientReach::stage);

}  // namespace zerolock
