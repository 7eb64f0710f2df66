#pragma once
/// The named places where a fault can be injected into a stage.

#include <cstdint>
#include <functional>
#include <string_view>

#include "tensors/base/indices.hpp"

namespace zerolock {

enum class FaultPoint : std::uint8_t {
  entry_received,
  forward_begin,
  forward_end,
  entry_sent,
  backward,
  step,
  targets_made,  // last stage: before they are handed over
  targets_sent,
  fit_begin,
  fit_end,
  checkpoint_temp,
  checkpoint_rename,
  manifest,
  durable_ack,
};
std::string_view to_string(FaultPoint point);

/// Called in the thread that reaches the point; may throw, which is how a test makes a worker fail. Empty: no
/// faults.
using FaultHook = std::function<void(FaultPoint, StageIndex, Incarnation, const BatchPosition&)>;

}  // namespace zerolock
