#include "supervision/restart_policy.hpp"

#include <algorithm>

namespace zerolock {

std::optional<std::chrono::nanoseconds> RestartPolicy::failed(std::chrono::nanoseconds now) {
  failures_.push_back(now);
  while (now - failures_.front() > intensity_.period) failures_.pop_front();
  if (failures_.size() > intensity_.restarts_max) return std::nullopt;
  if (failures_.size() == 1) return std::chrono::nanoseconds{0};
  std::chrono::nanoseconds delay = intensity_.first_delay;
  for (std::size_t i = 2; i < failures_.size() && delay < intensity_.delay_max; ++i) delay *= 2;
  return std::min(delay, intensity_.delay_max);
}

}  // namespace zerolock
