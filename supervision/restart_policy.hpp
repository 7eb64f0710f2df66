#pragma once
/// How often something may be restarted, and how soon, before the failure climbs.

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace zerolock {

struct RestartIntensity {
  std::uint64_t restarts_max = 5;  // within `period`; one more failure escalates
  std::chrono::nanoseconds period{std::chrono::seconds(60)};
  std::chrono::nanoseconds first_delay{
      std::chrono::milliseconds(10)};  // before the second restart in a period
  std::chrono::nanoseconds delay_max{std::chrono::seconds(1)};
};

/// Plain state; times are values, counted from any fixed moment, and do not fall.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartIntensity& intensity) : intensity_(intensity) {}

  /// A failure at `now`. Returns how long to wait before the restart: nothing at first, then twice as long
  /// each time. No value: too many failures in the period; escalate.
  std::optional<std::chrono::nanoseconds> failed(std::chrono::nanoseconds now);
  /// Failures that count at the moment, the last one included.
  [[nodiscard]] std::uint64_t recent_failures() const { return failures_.size(); }
  [[nodiscard]] const RestartIntensity& intensity() const { return intensity_; }

 private:
  RestartIntensity intensity_;
  std::deque<std::chrono::nanoseconds> failures_;  // within the period, oldest first
};

}  // namespace zerolock
