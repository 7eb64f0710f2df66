#pragma once
/// The affine map of a calibrated head: from the hidden state that leaves an inner chunk to what the whole
/// base model would make of it.

#include <ATen/ATen.h>

namespace zerolock {

/// h -> h A + b, rows h.
struct AffineMap {
  at::Tensor a;  // [width, width], fp32, or fp64 where the model computes in fp64
  at::Tensor b;  // [width], the same type

  [[nodiscard]] bool defined() const { return a.defined(); }
};

/// Ridge regression of y on x, both [n, width] fp32 or fp64 on the CPU, n >= 2:
///   Xc = x - mean(x), G = Xc' Xc, lambda = ridge trace(G) / width,
///   A = (G + lambda I)^-1 Xc' (y - mean(y)),  b = mean(y) - mean(x) A,
/// accumulated and solved (Cholesky) in fp64, rounded to x's type. Deterministic: the same rows give the same
/// bits. Throws RunError if the rows are not finite or all equal.
AffineMap fit_affine_map(const at::Tensor& x, const at::Tensor& y, double ridge);

}  // namespace zerolock
