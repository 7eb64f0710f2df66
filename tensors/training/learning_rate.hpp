#pragma once
/// Learning rates by window.

#include "tensors/base/indices.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// The rate of training window `window` (1, 2, …); with t = window - 1:
/// constant eta_0; cosine eta_0 (1 + cos(pi t / T)) / 2, zero from t = T = schedule_windows on; inverse
/// square root eta_0 / sqrt(t + gamma).
double learning_rate_at(const OptimizerSettings& settings, WindowIndex window);

}  // namespace zerolock
