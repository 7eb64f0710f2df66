#include "tensors/training/settings.hpp"

#include <ATen/ATen.h>

#include <cmath>

namespace zerolock {

double LoraSettings::scale() const {
  const auto r = static_cast<double>(rank);
  return rank_stabilised ? alpha / std::sqrt(r) : alpha / r;
}

at::ScalarType scalar_type(ComputeType type) {
  switch (type) {
    case ComputeType::bf16:
      return at::kBFloat16;
    case ComputeType::fp64:
      return at::kDouble;
    case ComputeType::fp32:
      break;
  }
  return at::kFloat;
}

}  // namespace zerolock
