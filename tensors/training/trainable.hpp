#pragma once
/// A tensor that an optimizer changes.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace zerolock {

/// Handles of the value and of the sum of its gradients: fp32 or fp64, same shape. The owner keeps both
/// alive.
struct TrainableTensor {
  std::string name;
  at::Tensor value;
  at::Tensor gradient;
  std::uint64_t warm_up = 0;  // the optimizer leaves it alone in its first so many steps
};

}  // namespace zerolock
