#include "transport/send_queue.hpp"

#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {

bool goes_first(FrameType type) {
  switch (type) {
    case FrameType::control:
    case FrameType::acknowledge:
    case FrameType::credit:
    case FrameType::request:
    case FrameType::beat:
      return true;
    default:
      return false;
  }
}

SendQueue::Push SendQueue::push(Frame frame, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = frame.wire_bytes();
  if (closed_ || bytes > bytes_max_ || bytes_ > bytes_max_ - bytes) return Push::refused;
  const bool was_empty = first_.empty() && second_.empty();
  bytes_ += bytes;
  (goes_first(frame.type) ? first_ : second_).push_back({std::move(frame), now});
  return was_empty ? Push::taken_by_empty_queue : Push::taken;
}

bool SendQueue::close_with(Frame last, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(closed_, true)) return false;
  bytes_ += last.wire_bytes();
  second_.push_back({std::move(last), now});
  return true;
}

void SendQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  first_.clear();
  second_.clear();
  bytes_ = 0;
}

std::optional<SendQueue::Queued> SendQueue::pop() {
  const std::lock_guard lock(mutex_);
  std::deque<Queued>& lane = first_.empty() ? second_ : first_;
  if (lane.empty()) return std::nullopt;
  Queued queued = std::move(lane.front());
  lane.pop_front();
  return queued;
}

void SendQueue::written(std::size_t wire_bytes) {
  const std::lock_guard lock(mutex_);
  // A closed queue has forgotten the frames that were popped.
  bytes_ = closed_ && bytes_ < wire_bytes ? 0 : bytes_ - wire_bytes;
}

std::size_t SendQueue::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace zerolock
