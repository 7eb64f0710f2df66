#include "apps/bench/stage_delays.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

void StageDelays::add(const TraceSpan& span) {
  switch (span.kind) {
    case TraceSpan::Kind::checkpoint:
      ++checkpoints_;
      break;
    case TraceSpan::Kind::forward:
      forward_begin_ = span.begin;
      busy_ = span.end - span.begin;
      break;
    case TraceSpan::Kind::backward:
      busy_ += span.end - span.begin;
      break;
    case TraceSpan::Kind::step:
      busy_ += span.end - span.begin;
      if (free_since_ && forward_begin_) {
        records_.push_back({milliseconds(*forward_begin_ - *free_since_), milliseconds(busy_)});
      }
      free_since_ = span.end;
      forward_begin_.reset();
      break;
    default:
      break;
  }
}

double quantile(std::vector<double> values, double share) {
  ZEROLOCK_INVARIANT(!values.empty() && share > 0 && share <= 1, "a quantile of something");
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const std::size_t index = std::max<std::size_t>(1, rank) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

}  // namespace zerolock
