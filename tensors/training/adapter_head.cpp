#include "tensors/training/adapter_head.hpp"

#include <cmath>
#include <utility>

#include "tensors/base/memory_account.hpp"
#include "tensors/model/lora.hpp"
#include "tensors/training/frozen_head.hpp"

namespace zerolock {

AdapterHead::AdapterHead(const HeadPlace& place, std::int64_t features, RmsNorm norm,
                         at::ScalarType compute_type, std::shared_ptr<const TokenRows> rows)
    : norm_(std::move(norm)), compute_type_(compute_type), rows_(std::move(rows)) {
  const MemoryScope scope(MemoryComponent::optimizer);
  const std::int64_t width = norm_.weight.numel();
  const at::ScalarType type = norm_.weight.scalar_type();
  w1_.name = place.name + ".W1";
  w1_.value = seeded_uniform(w1_.name, place.seed, {features, width},
                             1.0 / std::sqrt(static_cast<double>(width)), type);
  w1_.gradient = at::zeros_like(w1_.value);
  w2_ = {place.name + ".W2", at::zeros({width, features}, type), at::zeros({width, features}, type)};
}

at::Tensor AdapterHead::features(const at::Tensor& hidden, HeadTape* tape) const {
  const at::Tensor wide = hidden.to(norm_.weight.scalar_type());
  at::Tensor inverse_rms;
  at::Tensor normed = rms_norm_forward(norm_, wide, &inverse_rms);
  at::Tensor inner = at::mm(normed, w1_.value.t());
  at::Tensor result = at::addmm(normed, at::silu(inner), w2_.value.t());
  if (tape != nullptr) *tape = {wide, std::move(inverse_rms), {std::move(normed), std::move(inner)}};
  return result.to(compute_type_);
}

at::Tensor AdapterHead::backward(const at::Tensor& dfeatures, const HeadTape& tape) {
  const at::Tensor& normed = tape.more[0];
  const at::Tensor& inner = tape.more[1];
  const at::Tensor dy = dfeatures.to(norm_.weight.scalar_type());
  w2_.gradient.addmm_(dy.t(), at::silu(inner));
  // silu'(x) = s (1 + x (1 - s)), s = sigmoid(x)
  const at::Tensor s = at::sigmoid(inner);
  const at::Tensor dinner = at::mm(dy, w2_.value).mul_(s.mul(inner.mul(s.neg().add_(1)).add_(1)));
  w1_.gradient.addmm_(dinner.t(), normed);
  at::Tensor dhidden = at::zeros_like(tape.hidden);
  rms_norm_backward(norm_, at::addmm(dy, dinner, w1_.value), tape.hidden, tape.inverse_rms, dhidden);
  return dhidden.to(compute_type_);
}

std::size_t AdapterHead::bytes() const {
  return rows_->matrix.bytes() + norm_.weight.nbytes() + 2 * (w1_.value.nbytes() + w2_.value.nbytes());
}

double AdapterHead::operations_per_row() const {
  return output_operations(rows_->matrix) + 12.0 * static_cast<double>(w1_.value.numel());
}

}  // namespace zerolock
