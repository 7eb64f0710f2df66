#include "tensors/model/linear.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {
namespace {

/// Whether the stored bytes are already the matrix that is multiplied.
bool usable_in_place(const StoredTensor& weight, at::ScalarType type) {
  const bool same = (type == at::kFloat && weight.format() == StorageFormat::f32) ||
                    (type == at::kDouble && weight.format() == StorageFormat::f64) ||
                    (type == at::kBFloat16 && weight.format() == StorageFormat::bf16);
  return same && !weight.has_row_order() &&
         reinterpret_cast<std::uintptr_t>(weight.data()) % c10::elementSize(type) == 0;
}

}  // namespace

void ExpansionScratch::reserve(std::int64_t elements) {
  if (elements <= capacity_) return;
  const MemoryScope scope(MemoryComponent::weights);
  expanded_ = at::Tensor();  // the old one goes before the new one comes
  converted_ = at::Tensor();
  expanded_ = at::empty({elements}, at::kFloat);
  if (compute_type_ != at::kFloat) converted_ = at::empty({elements}, compute_type_);
  capacity_ = elements;
}

at::Tensor ExpansionScratch::expand(const StoredTensor& weight, std::int64_t first, std::int64_t count) {
  ZEROLOCK_INVARIANT(first >= 0 && count >= 0 && first + count <= weight.rows(), weight.name());
  const std::int64_t width = weight.row_elements();
  if (usable_in_place(weight, compute_type_)) {
    // ATen has no read-only tensors; nobody writes to an expanded weight.
    auto* rows = const_cast<std::byte*>(weight.data()) + first * width * c10::elementSize(compute_type_);
    return at::from_blob(rows, {count, width}, compute_type_);
  }
  reserve(count * width);
  weight.expand_rows(first, count, expanded_.data_ptr<float>());
  at::Tensor rows = expanded_.narrow(0, 0, count * width);
  if (compute_type_ != at::kFloat) rows = converted_.narrow(0, 0, count * width).copy_(rows);
  return rows.view({count, width});
}

at::Tensor linear_forward(const AdaptedLinear& linear, const at::Tensor& x, ExpansionScratch& scratch,
                          at::Tensor* projected) {
  const FrozenLinear& frozen = linear.frozen;
  const at::Tensor weight = scratch.expand(frozen.weight);
  at::Tensor y = frozen.bias.defined() ? at::addmm(frozen.bias, x, weight.t()) : at::mm(x, weight.t());
  if (linear.lora && linear.lora->active) {
    at::Tensor u = lora_forward(*linear.lora, x, y);
    if (projected != nullptr) *projected = std::move(u);
  }
  return y;
}

at::Tensor linear_forward_onto(const AdaptedLinear& linear, const at::Tensor& x, const at::Tensor& residual,
                               ExpansionScratch& scratch, at::Tensor* projected) {
  ZEROLOCK_INVARIANT(!linear.frozen.bias.defined(), "no bias on a projection into the residual stream");
  at::Tensor y = at::addmm(residual, x, scratch.expand(linear.frozen.weight).t());
  if (linear.lora && linear.lora->active) {
    at::Tensor u = lora_forward(*linear.lora, x, y);
    if (projected != nullptr) *projected = std::move(u);
  }
  return y;
}

void linear_backward(AdaptedLinear& linear, const at::Tensor& dy, const at::Tensor& x,
                     const at::Tensor& projected, ExpansionScratch& scratch, at::Tensor& dx,
                     const RowParts& parts) {
  const at::Tensor weight = scratch.expand(linear.frozen.weight);
  if (dx.defined()) {
    dx.addmm_(dy, weight);
  } else {
    dx = at::mm(dy, weight);
  }
  if (linear.lora) lora_backward(*linear.lora, dy, x, projected, dx, parts);
}

void linear_backward_parameters(AdaptedLinear& linear, const at::Tensor& dy, const at::Tensor& x,
                                const at::Tensor& projected, const RowParts& parts) {
  if (linear.lora) lora_backward(*linear.lora, dy, x, projected, at::Tensor(), parts);
}

}  // namespace zerolock
