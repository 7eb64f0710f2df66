#include "actors/core/batch_source_core.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

void BatchSourceCore::resume(const BatchPosition& first_lacking) {
  next_ = first_lacking;
  credit_ = {};
  session_entries_ = 0;
  session_bytes_ = 0;
}

void BatchSourceCore::credit(const EntryCredit& credit) {
  credit_.entries_total = std::max(credit_.entries_total, credit.entries_total);
  credit_.bytes_total = std::max(credit_.bytes_total, credit.bytes_total);
}

void BatchSourceCore::grant(WindowIndex window) {
  granted_ = std::max(granted_, window);
}

std::optional<BatchPosition> BatchSourceCore::next() const {
  if (!next_ || next_->window > granted_ || session_entries_ >= credit_.entries_total) return std::nullopt;
  return next_;
}

bool BatchSourceCore::sent(std::uint64_t bytes) {
  ZEROLOCK_INVARIANT(next().has_value(), "only what was due is sent");
  if (session_bytes_ + bytes > credit_.bytes_total) return false;
  ++session_entries_;
  session_bytes_ += bytes;
  next_ = position_after(*next_, micro_batches_);
  return true;
}

}  // namespace zerolock
