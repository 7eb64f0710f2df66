#pragma once
/// What crosses the edge of an executor's process, for those who want to count it.

#include <cstdint>
#include <functional>
#include <string_view>

#include "tensors/base/indices.hpp"

namespace zerolock {

struct TrafficItem {
  enum class Kind : std::uint8_t {
    entry,         // came in across the boundary into `stage`; `position` is its own
    state_copied,  // of `stage`, to the coordinator, which keeps it; position.window is the state's
    state_given,   // of `stage`, from the coordinator, to go on from; the same
  } kind = Kind::entry;
  StageIndex stage;
  BatchPosition position;
  std::uint64_t payload_bytes = 0;
  std::uint64_t wire_bytes = 0;  // with framing and metadata, without what TLS and TCP add; 0: not counted
};
inline std::string_view to_string(TrafficItem::Kind kind) {
  switch (kind) {
    case TrafficItem::Kind::entry:
      return "entry";
    case TrafficItem::Kind::state_copied:
      return "state copied";
    case TrafficItem::Kind::state_given:
      return "state given";
  }
  return "unknown";
}

/// Called when the item is here in whole, or has been handed over to be sent; by any thread. May be empty.
using TrafficWatch = std::function<void(const TrafficItem&)>;

}  // namespace zerolock
