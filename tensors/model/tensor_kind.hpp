#pragma once
/// Which tensors the fused loops can work on.

#include <ATen/ATen.h>

namespace zerolock {

/// True for contiguous fp32 tensors in CPU memory. Everything else goes through ATen.
inline bool is_dense_float(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() && tensor.is_contiguous();
}

}  // namespace zerolock
