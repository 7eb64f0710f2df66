#pragma once
/// SwiGLU (Shazeer 2020): silu(gate) * up. Only gate and up are kept for backward.

#include <ATen/ATen.h>

namespace zerolock {

/// gate and up [rows, feed-forward width] -> the same shape.
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up);

/// Replaces gate and up by their gradients, given the gradient of the output.
void swiglu_backward(const at::Tensor& doutput, at::Tensor& gate, at::Tensor& up);

}  // namespace zerolock
