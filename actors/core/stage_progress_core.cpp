#include "actors/core/stage_progress_core.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

StageProgressCore::StageProgressCore(StageProgressSetup setup)
    : setup_(std::move(setup)),
      committed_(setup_.committed),
      replays_(setup_.replay_batch > 1),
      next_to_ask_(first_position_after(setup_.committed)),
      input_(next_to_ask_) {
  ZEROLOCK_INVARIANT(committed_ <= setup_.checkpoints.last, "a worker starts within its run");
  ZEROLOCK_INVARIANT(setup_.unsaved_max > 0, "a checkpoint must be able to be under way");
  if (!setup_.save_first) saved_ = committed_;
  open_window();
}

void StageProgressCore::open_window() {
  done_steps_ = 0;
  steps_.clear();
  if (committed_ >= setup_.checkpoints.last) return;
  const WindowToDo window{window_after(committed_), input_, setup_.checkpoints.last, setup_.micro_batches};
  steps_ = committed_ ? setup_.schedule(window) : calibration_schedule(window, !setup_.has_downstream);
}

void StageProgressCore::commit() {
  committed_ = window_after(committed_);
  open_window();
}

bool StageProgressCore::checkpoint_pending() const {
  if (!committed_) return false;
  if (!saved_) return true;
  return *committed_ > *saved_ && setup_.checkpoints.due(*committed_);
}

StageAction StageProgressCore::next() const {
  using Kind = StageAction::Kind;
  // Asked for early, the next entry is there when the training of this one ends.
  const std::uint64_t ahead = replays_ ? setup_.replay_batch : 1;
  if (asked_ + received_.size() < ahead && next_to_ask_.window <= setup_.checkpoints.last)
    return {Kind::take, next_to_ask_, false};
  return due();
}

StageAction StageProgressCore::due() const {
  using Kind = StageAction::Kind;
  if (done_steps_ == 0 && checkpoint_pending()) {
    const bool room = unsaved_.size() < setup_.unsaved_max;
    return {room ? Kind::checkpoint : Kind::wait_checkpoint, {*committed_, 0}, false};
  }
  if (steps_.empty()) return {Kind::finished, {*committed_, 0}, false};
  return next_step();
}

StageAction StageProgressCore::next_step() const {
  using Kind = StageAction::Kind;
  const BatchPosition& position = current().position;
  switch (current().kind) {
    case ScheduledStep::Kind::forward:
      return next_forward(Kind::forward, position);
    case ScheduledStep::Kind::backward: {
      const bool waits = setup_.gradients_return && setup_.has_downstream && !gradients_.contains(position);
      return {waits ? Kind::wait_input : Kind::backward, position, false,
              position == joint_first_ ? joint_ : 1};
    }
    case ScheduledStep::Kind::step:
      return {Kind::step, position, false};
    case ScheduledStep::Kind::calibrate:
      return next_forward(Kind::calibrate, position);
    case ScheduledStep::Kind::hand_over:
      return {Kind::hand_over, position, false};
    case ScheduledStep::Kind::fit:
      break;
  }
  return {targets_known_ ? Kind::fit : Kind::wait_targets, position, false};
}

StageAction StageProgressCore::next_forward(StageAction::Kind forward, const BatchPosition& position) const {
  using Kind = StageAction::Kind;
  if (received_.empty()) return {Kind::wait_input, position, false};
  if (!setup_.has_downstream) return {forward, position, false, forwards_at_once()};
  if (!allowance_) return {Kind::wait_output, position, false};
  // A replay makes outputs again that are held already: they take no room and are not sent.
  if (position < allowance_->next) return {forward, position, false, forwards_at_once()};
  if (sent_entries_ >= allowance_->allowed_entries) return {Kind::wait_output, position, false};
  const std::uint64_t bytes = bytes_per_row_ * static_cast<std::uint64_t>(received_.front().rows);
  if (sent_bytes_ + bytes <= allowance_->allowed_bytes) return {forward, position, true, forwards_at_once()};
  return {never_fits(position, bytes) ? Kind::blocked : Kind::wait_output, position, false};
}

/// Those that are here, of this window, with room for all of their outputs. Only where each forward is
/// followed by its own backward can several change places with theirs.
std::uint64_t StageProgressCore::forwards_at_once() const {
  if (!replays_) return 1;
  std::uint64_t count = 0;
  std::uint64_t entries = sent_entries_;
  std::uint64_t bytes = sent_bytes_;
  for (const Received& received : received_) {
    const std::size_t at = done_steps_ + 2 * count;
    if (count == setup_.replay_batch || at + 1 >= steps_.size() ||
        steps_[at] != ScheduledStep{ScheduledStep::Kind::forward, received.position} ||
        steps_[at + 1] != ScheduledStep{ScheduledStep::Kind::backward, received.position}) {
      break;
    }
    if (setup_.has_downstream && received.position >= allowance_->next) {
      // The first output of a life may be the one that tells how large they are.
      if (bytes_per_row_ == 0 && entries > sent_entries_) break;
      bytes += bytes_per_row_ * static_cast<std::uint64_t>(received.rows);
      if (++entries > allowance_->allowed_entries || bytes > allowance_->allowed_bytes) break;
    }
    ++count;
  }
  return std::max<std::uint64_t>(count, 1);
}

/// Room comes back when the recovery line passes a window; it cannot pass one that this output is part of.
/// What is not kept leaves room as soon as it is sent.
bool StageProgressCore::never_fits(const BatchPosition& position, std::uint64_t bytes) const {
  if (setup_.gradients_return) return bytes > setup_.output_bytes_max;
  return position.window <= setup_.checkpoints.next_after(allowance_->recovery_line);
}

void StageProgressCore::begins_together(std::uint64_t count) {
  const StageAction action = due();
  ZEROLOCK_INVARIANT(action.kind == StageAction::Kind::forward && count > 0 && count <= action.together,
                     "only forwards that are due are done together");
  joint_first_ = action.position;
  joint_ = count;
  const auto first = steps_.begin() + static_cast<std::ptrdiff_t>(done_steps_);
  std::stable_partition(first, first + static_cast<std::ptrdiff_t>(2 * count),
                        [](const ScheduledStep& step) { return step.kind == ScheduledStep::Kind::forward; });
}

void StageProgressCore::asked() {
  ZEROLOCK_INVARIANT(next().kind == StageAction::Kind::take, "only an entry that was due is asked for");
  ++asked_;
  next_to_ask_ = position_after(next_to_ask_, setup_.micro_batches);
}

void StageProgressCore::received(const BatchPosition& position, std::int64_t rows) {
  ZEROLOCK_INVARIANT(asked_ > 0, "entries come when asked for");
  const BatchPosition expected =
      received_.empty() ? input_ : position_after(received_.back().position, setup_.micro_batches);
  ZEROLOCK_INVARIANT(position == expected, "entries come in order");
  --asked_;
  received_.push_back({position, rows});
}

void StageProgressCore::gradient_received(const BatchPosition& position) {
  ZEROLOCK_INVARIANT(sent_on_.erase(position) == 1, "a gradient comes once, and for what was sent on");
  gradients_.insert(position);
}

void StageProgressCore::forwarded(std::uint64_t bytes) {
  const StageAction action = due();
  ZEROLOCK_INVARIANT(action.kind == StageAction::Kind::forward || action.kind == StageAction::Kind::calibrate,
                     "only a forward that was due is done");
  if (action.emit) {
    ++sent_entries_;
    sent_bytes_ += bytes;
  }
  const std::int64_t rows = received_.front().rows;
  if (rows > 0) bytes_per_row_ = bytes / static_cast<std::uint64_t>(rows);
  if (setup_.gradients_return && setup_.has_downstream) sent_on_.insert(action.position);
  received_.pop_front();
  input_ = position_after(input_, setup_.micro_batches);
  ++done_steps_;
}

void StageProgressCore::trained() {
  const StageAction action = due();
  ZEROLOCK_INVARIANT(action.kind == StageAction::Kind::backward, "only a backward that was due is done");
  gradients_.erase(action.position);
  ++done_steps_;
}

void StageProgressCore::stepped() {
  ZEROLOCK_INVARIANT(due().kind == StageAction::Kind::step, "only a step that was due is done");
  commit();
}

void StageProgressCore::handed_over() {
  ZEROLOCK_INVARIANT(due().kind == StageAction::Kind::hand_over,
                     "only targets that were due are handed over");
  ++done_steps_;
}

void StageProgressCore::targets_known() {
  targets_known_ = true;
}

void StageProgressCore::fitted() {
  ZEROLOCK_INVARIANT(due().kind == StageAction::Kind::fit, "only a fit that was due is done");
  commit();
}

void StageProgressCore::saved() {
  ZEROLOCK_INVARIANT(due().kind == StageAction::Kind::checkpoint,
                     "only a checkpoint that was due is handed over");
  saved_ = committed_;
  unsaved_.push_back(*committed_);
}

void StageProgressCore::allowance(const OutputAllowance& allowance) {
  if (!allowance_) {
    sent_entries_ = allowance.accepted_entries;
    sent_bytes_ = allowance.accepted_bytes;
  }
  // What an earlier life has made tells how large outputs are; the first one of this life may find no room.
  if (bytes_per_row_ == 0) bytes_per_row_ = allowance.bytes_per_row;
  // Outputs on their way to the buffer are not in its word yet; the own totals count them.
  const BatchPosition next_output = allowance_ ? std::max(allowance_->next, allowance.next) : allowance.next;
  allowance_ = allowance;
  allowance_->next = next_output;
}

void StageProgressCore::made_durable(WindowIndex window) {
  while (!unsaved_.empty() && unsaved_.front() <= window) unsaved_.pop_front();
}

void StageProgressCore::end_at(WindowIndex window) {
  ZEROLOCK_INVARIANT(window >= committed_, "a run cannot end before what is committed");
  ZEROLOCK_INVARIANT(window > committed_ || done_steps_ == 0,
                     "a window that was not granted cannot have begun");
  setup_.checkpoints.last = window;
  if (window == committed_) open_window();
  // Forwards that were to run ahead into windows which do not come.
  std::erase_if(steps_, [window](const ScheduledStep& step) { return step.position.window > window; });
}

}  // namespace zerolock
