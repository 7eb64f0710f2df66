#pragma once
/// A tensor that an optimizer changes.

#include <ATen/ATen.h>

#include <string>

namespace zerolock {

/// Handles of the value and of the sum of its gradients: fp32 or fp64, same shape. The owner keeps both
/// alive.
struct TrainableTensor {
  std::string name;
  at::Tensor value;
  at::Tensor gradient;
};

}  // namespace zerolock
