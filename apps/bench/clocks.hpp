#pragma once
/// What a measurement spends: time, and processor time.

#include <chrono>

#include "tensors/base/processor_time.hpp"

namespace zerolock {

/// Seconds of the steady clock, and of processors in this process. Only differences mean anything.
struct Clocks {
  double wall = 0;
  double cpu = 0;

  static Clocks now() {
    const auto wall = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(wall).count(), process_cpu_seconds()};
  }
  Clocks operator-(const Clocks& earlier) const { return {wall - earlier.wall, cpu - earlier.cpu}; }
};

}  // namespace zerolock
