#pragma once
/// Flow control across a boundary and between a worker and its outbound buffer: totals, not increments, so
/// that a repeated or overtaken message changes nothing.

#include <cstdint>

#include "actors/core/window_order.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// What a downstream lets its upstream send. Both totals count from the start of the session and never fall.
struct EntryCredit {
  std::uint64_t entries_total = 0;
  std::uint64_t bytes_total = 0;

  constexpr auto operator<=>(const EntryCredit&) const = default;
};

/// What an outbound buffer lets its worker produce. Totals count over the buffer's life.
struct OutputAllowance {
  BatchPosition next;  // the first output that is not held yet; earlier ones need not be sent
  std::uint64_t accepted_entries = 0;
  std::uint64_t accepted_bytes = 0;
  std::uint64_t allowed_entries = 0;           // accepted_entries may rise to this
  std::uint64_t allowed_bytes = 0;             // accepted_bytes may rise to this
  WindowsDone recovery_line = WindowIndex{0};  // what the buffer knows of it
  std::uint64_t bytes_per_row = 0;             // of the latest output accepted; 0: none was

  constexpr bool operator==(const OutputAllowance&) const = default;
};

}  // namespace zerolock
