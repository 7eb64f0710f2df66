#pragma once
/// What a worker's thread and its supervisor share, so that a compute step that hangs is noticed.

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/core/compute_deadline.hpp"

namespace zerolock {

/// Of one life of a worker. Thread-safe.
class ComputeWatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ComputeWatch(const ComputeLimits& limits) : deadline_(limits) {}

  void began(ComputeStep step, const BatchPosition& position) {
    const std::lock_guard lock(mutex_);
    deadline_.began(step, position, Clock::now().time_since_epoch());
  }
  void ended() {
    const std::lock_guard lock(mutex_);
    deadline_.ended(Clock::now().time_since_epoch());
  }
  void paused(std::chrono::nanoseconds length) {
    const std::lock_guard lock(mutex_);
    deadline_.paused(length);
  }
  [[nodiscard]] std::optional<std::string> overdue() const {
    const std::lock_guard lock(mutex_);
    return deadline_.overdue(Clock::now().time_since_epoch());
  }

 private:
  mutable std::mutex mutex_;
  ComputeDeadline deadline_;
};

/// A compute step from its construction to its end. `watch` may be null.
class ComputeScope {
 public:
  ComputeScope(const std::shared_ptr<ComputeWatch>& watch, ComputeStep step, const BatchPosition& position)
      : watch_(watch) {
    if (watch_) watch_->began(step, position);
  }
  ~ComputeScope() {
    if (watch_) watch_->ended();
  }
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  std::shared_ptr<ComputeWatch> watch_;
};

}  // namespace zerolock
