#include "tensors/model/rms_norm.hpp"

#include "tensors/model/fused_loops.hpp"
#include "tensors/model/tensor_kind.hpp"

namespace zerolock {
namespace {

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

at::Tensor rms_norm_forward(const RmsNorm& norm, const at::Tensor& x, at::Tensor* inverse_rms) {
  const at::ScalarType type = sum_type(x);
  if (is_dense_float(x) && is_dense_float(norm.weight)) {
    at::Tensor y = at::empty_like(x);
    at::Tensor factors = at::empty({x.size(0)}, x.options());
    fused::rms_norm(x.data_ptr<float>(), norm.weight.data_ptr<float>(), x.size(0), x.size(1), norm.epsilon,
                    y.data_ptr<float>(), factors.data_ptr<float>());
    if (inverse_rms != nullptr) *inverse_rms = std::move(factors);
    return y;
  }
  const at::Tensor factors = x.to(type).square().mean(1).add_(norm.epsilon).rsqrt_();
  if (inverse_rms != nullptr) *inverse_rms = factors;
  return rms_norm_again(norm, x, factors);
}

at::Tensor rms_norm_again(const RmsNorm& norm, const at::Tensor& x, const at::Tensor& inverse_rms) {
  if (is_dense_float(x) && is_dense_float(norm.weight)) {
    at::Tensor y = at::empty_like(x);
    fused::rms_norm_again(x.data_ptr<float>(), norm.weight.data_ptr<float>(), inverse_rms.data_ptr<float>(),
                          x.size(0), x.size(1), y.data_ptr<float>());
    return y;
  }
  return x.to(inverse_rms.scalar_type()).mul(inverse_rms.unsqueeze(1)).to(x.scalar_type()).mul_(norm.weight);
}

void rms_norm_backward(const RmsNorm& norm, const at::Tensor& dy, const at::Tensor& x,
                       const at::Tensor& inverse_rms, at::Tensor& dx) {
  if (is_dense_float(x) && is_dense_float(dy) && is_dense_float(dx) && is_dense_float(norm.weight)) {
    fused::rms_norm_backward(dy.data_ptr<float>(), x.data_ptr<float>(), norm.weight.data_ptr<float>(),
                             inverse_rms.data_ptr<float>(), x.size(0), x.size(1), dx.data_ptr<float>());
    return;
  }
  const at::ScalarType type = inverse_rms.scalar_type();
  const at::Tensor factor = inverse_rms.unsqueeze(1);
  const at::Tensor wide = x.to(type);
  const at::Tensor weighted = dy.to(type).mul(norm.weight.to(type));
  const at::Tensor along = weighted.mul(wide).mean(1, true);
  dx.add_(weighted.mul(factor).sub_(wide.mul(factor.pow(3).mul_(along))).to(dx.scalar_type()));
}

}  // namespace zerolock
