#include "actors/core/fault_point.hpp"

namespace zerolock {

std::string_view to_string(FaultPoint point) {
  switch (point) {
    case FaultPoint::entry_received:
      return "entry-received";
    case FaultPoint::forward_begin:
      return "forward-begin";
    case FaultPoint::forward_end:
      return "forward-end";
    case FaultPoint::entry_sent:
      return "entry-sent";
    case FaultPoint::backward:
      return "backward";
    case FaultPoint::step:
      return "step";
    case FaultPoint::targets_made:
      return "targets-made";
    case FaultPoint::targets_sent:
      return "targets-sent";
    case FaultPoint::fit_begin:
      return "fit-begin";
    case FaultPoint::fit_end:
      return "fit-end";
    case FaultPoint::checkpoint_temp:
      return "checkpoint-temp";
    case FaultPoint::checkpoint_rename:
      return "checkpoint-rename";
    case FaultPoint::manifest:
      return "manifest";
    case FaultPoint::durable_ack:
      return "durable-ack";
  }
  return "unknown";
}

}  // namespace zerolock
