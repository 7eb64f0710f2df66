#include "actors/core/hidden_state_buffer_core.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

std::string_view to_string(Reception reception) {
  switch (reception) {
    case Reception::accepted:
      return "accepted";
    case Reception::other_session:
      return "of another session";
    case Reception::earlier_incarnation:
      return "of an earlier incarnation";
    case Reception::known_position:
      return "already known";
    case Reception::gap:
      return "not the next one";
    case Reception::over_bound:
      return "over the byte bound";
  }
  return "unknown";
}

HiddenStateBufferCore::HiddenStateBufferCore(HiddenStateBufferSetup setup)
    : setup_(std::move(setup)), next_(first_position_after(setup_.durable)) {
  ZEROLOCK_INVARIANT(setup_.depth > 0 && setup_.bytes_max > 0, "a buffer holds at least one entry");
  update_credit();
}

void HiddenStateBufferCore::open_session(std::uint64_t session) {
  session_ = session;
  session_entries_ = 0;
  session_bytes_ = 0;
  credit_ = {};
  update_credit();
}

Reception HiddenStateBufferCore::receive(std::uint64_t session, const Entry& entry) {
  if (session != session_) {
    ++dropped_;
    return Reception::other_session;
  }
  const std::uint64_t bytes = entry.bytes();
  ++session_entries_;
  session_bytes_ += bytes;
  const Reception reception = judge(entry);
  if (reception == Reception::accepted) {
    producer_ = entry.producer;
    held_.push_back(entry);
    held_bytes_ += bytes;
    held_bytes_peak_ = std::max(held_bytes_peak_, held_bytes_);
    next_ = position_after(next_, setup_.micro_batches);
  } else {
    ++dropped_;
  }
  update_credit();
  return reception;
}

Reception HiddenStateBufferCore::judge(const Entry& entry) const {
  if (entry.producer < producer_) return Reception::earlier_incarnation;
  if (entry.position < next_) return Reception::known_position;
  if (entry.position > next_) return Reception::gap;
  if (held_bytes_ + entry.bytes() > setup_.bytes_max) return Reception::over_bound;
  return Reception::accepted;
}

const Entry* HiddenStateBufferCore::take() {
  if (taken_ == held_.size()) return nullptr;
  const Entry* entry = &held_[taken_++];
  update_credit();
  return entry;
}

void HiddenStateBufferCore::handed_over() {
  if (setup_.keeps_taken) return;
  for (; taken_ > 0; --taken_) {
    held_bytes_ -= held_.front().bytes();
    held_.pop_front();
  }
  update_credit();
}

void HiddenStateBufferCore::rewind(const WindowsDone& committed) {
  ZEROLOCK_INVARIANT(committed >= setup_.durable, "entries up to the durable window are gone");
  ZEROLOCK_INVARIANT(next_ >= first_position_after(committed),
                     "a stage cannot have trained what it never received");
  const auto later = [&](const Entry& entry) { return entry.position.window > committed; };
  taken_ = static_cast<std::size_t>(std::find_if(held_.begin(), held_.end(), later) - held_.begin());
  update_credit();
}

void HiddenStateBufferCore::made_durable(WindowIndex window) {
  if (window <= setup_.durable) return;
  ZEROLOCK_INVARIANT(next_ >= first_position_after(window), "a durable window was received in full");
  setup_.durable = window;
  while (!held_.empty() && held_.front().position.window <= window) {
    held_bytes_ -= held_.front().bytes();
    held_.pop_front();
    // An entry may be released untaken: its window became durable in a life that has ended since.
    if (taken_ > 0) --taken_;
  }
  update_credit();
}

bool HiddenStateBufferCore::blocked_for_good(const BatchPosition& position, std::uint64_t bytes) const {
  if (!setup_.keeps_taken) return position == next_ && bytes > setup_.bytes_max;
  return position == next_ && held_bytes_ + bytes > setup_.bytes_max &&
         position.window <= setup_.checkpoints.next_after(setup_.durable);
}

bool HiddenStateBufferCore::worth_announcing(const EntryCredit& announced) const {
  const auto half_used = [](std::uint64_t known_total, std::uint64_t free_total, std::uint64_t used) {
    const std::uint64_t known = known_total > used ? known_total - used : 0;
    return free_total > known_total && 2 * known <= free_total - used;
  };
  return half_used(announced.entries_total, credit_.entries_total, session_entries_) ||
         half_used(announced.bytes_total, credit_.bytes_total, session_bytes_);
}

void HiddenStateBufferCore::update_credit() {
  const std::uint64_t waiting = waiting_entries();
  const std::uint64_t free_entries = waiting < setup_.depth ? setup_.depth - waiting : 0;
  credit_.entries_total = std::max(credit_.entries_total, session_entries_ + free_entries);
  credit_.bytes_total = std::max(credit_.bytes_total, session_bytes_ + (setup_.bytes_max - held_bytes_));
}

}  // namespace zerolock
