#include "actors/core/outbound_buffer_core.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

OutboundBufferCore::OutboundBufferCore(OutboundBufferSetup setup) : setup_(std::move(setup)) {
  ZEROLOCK_INVARIANT(setup_.bytes_max > 0, "a buffer holds at least one entry");
}

bool OutboundBufferCore::resume(const BatchPosition& first_lacking) {
  if (!next_) next_ = first_lacking;
  const BatchPosition oldest = held_.empty() ? *next_ : held_.front().position;
  if (first_lacking < oldest) return false;
  // What the downstream has is not sent again, but stays: the line alone decides what may go.
  const auto lacked = [&](const Entry& entry) { return entry.position >= first_lacking; };
  sent_ = static_cast<std::size_t>(std::find_if(held_.begin(), held_.end(), lacked) - held_.begin());
  session_entries_ = 0;
  session_bytes_ = 0;
  credit_ = {};
  return true;
}

void OutboundBufferCore::credit(const EntryCredit& credit) {
  credit_.entries_total = std::max(credit_.entries_total, credit.entries_total);
  credit_.bytes_total = std::max(credit_.bytes_total, credit.bytes_total);
}

bool OutboundBufferCore::put(const Entry& entry) {
  ZEROLOCK_INVARIANT(next_.has_value(), "a worker produces only once the downstream has said what it lacks");
  if (entry.position < *next_) {
    ++dropped_;
    return true;
  }
  ZEROLOCK_INVARIANT(entry.position == *next_, "a worker's outputs follow one another");
  const std::uint64_t bytes = entry.bytes();
  if (held_bytes_ + bytes > setup_.bytes_max) return false;
  held_.push_back(entry);
  held_bytes_ += bytes;
  held_bytes_peak_ = std::max(held_bytes_peak_, held_bytes_);
  ++accepted_entries_;
  accepted_bytes_ += bytes;
  if (entry.layout && entry.layout->rows() > 0)
    bytes_per_row_ = bytes / static_cast<std::uint64_t>(entry.layout->rows());
  next_ = position_after(*next_, setup_.micro_batches);
  return true;
}

const Entry* OutboundBufferCore::next_to_send() {
  release();
  if (sent_ == held_.size()) return nullptr;
  const Entry& entry = held_[sent_];
  const std::uint64_t bytes = entry.bytes();
  if (session_entries_ >= credit_.entries_total || session_bytes_ + bytes > credit_.bytes_total)
    return nullptr;
  ++sent_;
  ++session_entries_;
  session_bytes_ += bytes;
  return &entry;
}

void OutboundBufferCore::recovery_line(WindowIndex line) {
  setup_.recovery_line = std::max(setup_.recovery_line, WindowsDone{line});
  release();
}

void OutboundBufferCore::release() {
  // What is not sent in this session stays, even behind the line: a downstream that had to pass over a
  // damaged checkpoint lacks it again.
  while (sent_ > 0 && (!setup_.keeps_sent || held_.front().position.window <= setup_.recovery_line)) {
    held_bytes_ -= held_.front().bytes();
    held_.pop_front();
    --sent_;
  }
}

const Entry* OutboundBufferCore::lacking_bytes() const {
  if (sent_ == held_.size() || session_entries_ >= credit_.entries_total) return nullptr;
  const Entry& entry = held_[sent_];
  return session_bytes_ + entry.bytes() > credit_.bytes_total ? &entry : nullptr;
}

OutputAllowance OutboundBufferCore::allowance() const {
  ZEROLOCK_INVARIANT(next_.has_value(), "nothing is allowed before the downstream has connected");
  const std::uint64_t free_entries = credit_.entries_total - session_entries_;
  const std::uint64_t unsent = unsent_entries();
  OutputAllowance allowance;
  allowance.next = *next_;
  allowance.accepted_entries = accepted_entries_;
  allowance.accepted_bytes = accepted_bytes_;
  allowance.allowed_entries = accepted_entries_ + (free_entries > unsent ? free_entries - unsent : 0);
  allowance.allowed_bytes = accepted_bytes_ + (setup_.bytes_max - held_bytes_);
  allowance.recovery_line = setup_.recovery_line;
  allowance.bytes_per_row = bytes_per_row_;
  return allowance;
}

}  // namespace zerolock
