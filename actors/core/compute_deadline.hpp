#pragma once
/// How long a stage's compute steps may take before the thread is taken to hang.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// What a worker's thread is busy with. Loading the model is none of these: it may wait for a network.
enum class ComputeStep : std::uint8_t { receive, forward, backward, step, calibration, fit, copy };
std::string_view to_string(ComputeStep step);

struct ComputeLimits {
  std::int64_t multiple = 10;  // of the median of what the step has taken
  /// No step is given up before: twice a minute, which a sudden slow step (a page-in of the model, a laptop
  /// that cools down) may well take, is what a hang costs at most.
  std::chrono::nanoseconds floor{std::chrono::minutes(2)};
  std::chrono::nanoseconds first{std::chrono::minutes(10)};  // until some have been measured, at least this
};

/// Plain state of one life of a worker; times are values, counted from any fixed moment.
class ComputeDeadline {
 public:
  explicit ComputeDeadline(const ComputeLimits& limits) : limits_(limits) {}

  void began(ComputeStep step, const BatchPosition& position, std::chrono::nanoseconds now);
  void ended(std::chrono::nanoseconds now);
  /// The whole process stood still for so long: that is not the step's fault.
  void paused(std::chrono::nanoseconds length);

  /// The time that a step of this kind may take now.
  [[nodiscard]] std::chrono::nanoseconds allowed(ComputeStep step) const;
  /// Nothing, or why the step under way is taken to hang: "window 3, micro-batch 2: the backward has taken
  /// 31 s; it usually takes 0.4 s".
  [[nodiscard]] std::optional<std::string> overdue(std::chrono::nanoseconds now) const;

 private:
  static constexpr std::size_t measured_least = 3;  // before their median counts
  static constexpr std::size_t measured_most = 31;  // the newest

  struct UnderWay {
    ComputeStep step = ComputeStep::receive;
    BatchPosition position;
    std::chrono::nanoseconds since{0};
  };
  using Times = std::deque<std::chrono::nanoseconds>;

  [[nodiscard]] const Times& times(ComputeStep step) const {
    return times_.at(static_cast<std::size_t>(step));
  }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> median(ComputeStep step) const;

  ComputeLimits limits_;
  std::array<Times, 7> times_;  // by step, oldest first
  std::optional<UnderWay> under_way_;
};

}  // namespace zerolock
