#pragma once
/// Frames between the threads that send them and the one that writes them.

#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include "transport/frame.hpp"

namespace zerolock {

/// True for the lane that goes first: control, acknowledge, credit, request, beat.
[[nodiscard]] bool goes_first(FrameType type);

/// Two lanes, bounded together in bytes. A frame's bytes count until it was written. Thread-safe.
class SendQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Queued {
    Frame frame;
    TimePoint since;
  };
  enum class Push { refused, taken, taken_by_empty_queue };

  explicit SendQueue(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// `taken_by_empty_queue`: the writer may be idle and has to be told.
  Push push(Frame frame, TimePoint now);
  /// Takes one last frame, which goes after all others, and refuses what comes later. False if the queue was
  /// closed already.
  bool close_with(Frame last, TimePoint now);
  /// Refuses and forgets everything.
  void close();

  std::optional<Queued> pop();
  /// A popped frame was written.
  void written(std::size_t wire_bytes);
  [[nodiscard]] std::size_t bytes() const;

 private:
  mutable std::mutex mutex_;
  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
  std::deque<Queued> first_;
  std::deque<Queued> second_;
};

}  // namespace zerolock
