#include "tensors/training/affine_map.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

/// Rows that stand in fp64 at once.
constexpr std::int64_t slab_rows = 256;

template <class Work>
void for_each_slab(std::int64_t rows, Work work) {
  for (std::int64_t first = 0; first < rows; first += slab_rows) {
    work(first, std::min(slab_rows, rows - first));
  }
}

at::Tensor mean_of_rows(const at::Tensor& rows) {
  at::Tensor sum = at::zeros({rows.size(1)}, at::kDouble);
  for_each_slab(rows.size(0), [&](std::int64_t first, std::int64_t count) {
    sum.add_(rows.narrow(0, first, count).to(at::kDouble).sum(0));
  });
  return sum.div_(static_cast<double>(rows.size(0)));
}

}  // namespace

AffineMap fit_affine_map(const at::Tensor& x, const at::Tensor& y, double ridge) {
  ZEROLOCK_INVARIANT(x.dim() == 2 && x.sizes() == y.sizes(), "as many target rows as rows");
  const std::int64_t width = x.size(1);
  if (x.size(0) < 2) throw RunError("calibration has fewer than 2 supervised rows to fit to");
  const at::Tensor mean_x = mean_of_rows(x);
  const at::Tensor mean_y = mean_of_rows(y);
  at::Tensor gram = at::zeros({width, width}, at::kDouble);
  at::Tensor cross = at::zeros({width, width}, at::kDouble);
  for_each_slab(x.size(0), [&](std::int64_t first, std::int64_t count) {
    const at::Tensor centred = x.narrow(0, first, count).to(at::kDouble).sub(mean_x);
    gram.addmm_(centred.t(), centred);
    cross.addmm_(centred.t(), y.narrow(0, first, count).to(at::kDouble).sub(mean_y));
  });
  const double trace = gram.trace().item<double>();
  if (!std::isfinite(trace) || !std::isfinite(cross.sum().item<double>())) {
    throw RunError("calibration: the hidden states are not finite");
  }
  if (trace == 0) throw RunError("calibration: all supervised rows have the same hidden state");
  gram.diagonal().add_(ridge * trace / static_cast<double>(width));
  const auto [factor, failed] = at::linalg_cholesky_ex(gram);
  if (failed.item<int>() != 0) throw RunError("calibration: the normal equations are singular");
  const at::Tensor a = at::cholesky_solve(cross, factor);
  const at::Tensor b = mean_y.sub(at::mv(a.t(), mean_x));
  return {a.to(x.scalar_type()).contiguous(), b.to(x.scalar_type())};
}

}  // namespace zerolock
