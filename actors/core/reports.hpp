#pragma once
/// What stages tell about their work: numbers for metrics.jsonl, spans for trace.json.

#include <chrono>
#include <cstdint>

#include "tensors/base/indices.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// What happened in one stage during one window.
struct WindowReport {
  StageIndex stage;
  WindowIndex window;
  LossReport loss;  // mean over the window's micro-batches, in order
  StepReport step;
  std::chrono::nanoseconds busy{0};  // forward, backward and step
};

/// Micro-batches that stand in a stage's two buffers.
struct StageQueues {
  StageIndex stage;
  std::uint64_t inbound_waiting = 0;  // received, and not taken by the worker yet
  std::uint64_t inbound_held = 0;     // these, and those that a restart would be fed again
  std::uint64_t outbound_unsent = 0;  // made, and waiting for the next stage's credit
  std::uint64_t outbound_held = 0;    // these, and those that the next stage could ask for again

  bool operator==(const StageQueues&) const = default;
};

/// One piece of a stage's time, for the trace. Times count from the start of the run.
struct TraceSpan {
  enum class Kind : std::uint8_t {
    forward,
    backward,
    step,
    wait_input,
    wait_output,
    checkpoint,
    restore,
    calibrate,  // forward of the base model, or the fit
  };
  Kind kind;
  StageIndex stage;
  Incarnation incarnation;
  BatchPosition position;
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds end{0};
};

}  // namespace zerolock
