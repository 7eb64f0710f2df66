#include "tensors/training/learning_rate.hpp"

#include <algorithm>
#include <cmath>

#include "tensors/base/error.hpp"

namespace zerolock {

double learning_rate_at(const OptimizerSettings& settings, WindowIndex window) {
  ZEROLOCK_INVARIANT(window.value >= 1, "training windows count from 1");
  const double t = static_cast<double>(window.value - 1);
  switch (settings.schedule) {
    case ScheduleKind::constant:
      break;
    case ScheduleKind::cosine: {
      const double share = std::min(1.0, t / static_cast<double>(settings.schedule_windows));
      return settings.learning_rate * 0.5 * (1.0 + std::cos(M_PI * share));
    }
    case ScheduleKind::inverse_sqrt:
      return settings.learning_rate / std::sqrt(t + settings.schedule_offset);
  }
  return settings.learning_rate;
}

}  // namespace zerolock
