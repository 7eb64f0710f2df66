#pragma once
/// When to try again to reach somebody who is not there.

#include <algorithm>
#include <chrono>

namespace zerolock {

/// Waits that double, up to a bound, until an attempt succeeds.
class ReconnectPolicy {
 public:
  using Duration = std::chrono::milliseconds;

  ReconnectPolicy(Duration first, Duration longest) : first_(first), longest_(longest), next_(first) {}

  /// How long to wait before the next attempt.
  Duration failed() {
    const Duration wait = next_;
    next_ = std::min(longest_, next_ * 2);
    return wait;
  }
  void succeeded() { next_ = first_; }

 private:
  Duration first_;
  Duration longest_;
  Duration next_;
};

}  // namespace zerolock
