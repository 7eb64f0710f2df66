#pragma once
/// Root-mean-square normalisation (Zhang and Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * weight, row
/// by row.

#include <ATen/ATen.h>

namespace zerolock {

struct RmsNorm {
  at::Tensor weight;  // [width], compute type
  double epsilon = 1e-5;
};

/// x [rows, width] -> the same shape. `inverse_rms` receives [rows] in fp32 (fp64 for fp64 rows) unless it is
/// null.
at::Tensor rms_norm_forward(const RmsNorm& norm, const at::Tensor& x, at::Tensor* inverse_rms);

/// The output of an earlier forward again, from its input and factors.
at::Tensor rms_norm_again(const RmsNorm& norm, const at::Tensor& x, const at::Tensor& inverse_rms);

/// Adds the gradient of x to dx, given dy, all [rows, width].
void rms_norm_backward(const RmsNorm& norm, const at::Tensor& dy, const at::Tensor& x,
                       const at::Tensor& inverse_rms, at::Tensor& dx);

}  // namespace zerolock
