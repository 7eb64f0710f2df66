#include "tensors/training/calibrated_head.hpp"

#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/frozen_head.hpp"

namespace zerolock {

CalibratedHead::CalibratedHead(std::string name, RmsNorm norm, at::ScalarType compute_type,
                               std::shared_ptr<const TokenRows> rows)
    : name_(std::move(name)), norm_(std::move(norm)), compute_type_(compute_type), rows_(std::move(rows)) {}

void CalibratedHead::set_map(const AffineMap& map) {
  const std::int64_t width = norm_.weight.numel();
  if (map.a.sizes() != at::IntArrayRef({width, width}) || map.b.sizes() != at::IntArrayRef({width})) {
    throw InputError(name_, "the affine map is not one of width " + std::to_string(width));
  }
  const MemoryScope scope(MemoryComponent::weights);
  const auto options = norm_.weight.options();
  map_ = {at::empty({width, width}, options).copy_(map.a), at::empty({width}, options).copy_(map.b)};
}

at::Tensor CalibratedHead::features(const at::Tensor& hidden, HeadTape* tape) const {
  ZEROLOCK_INVARIANT(fitted(), name_ + " is fitted before it reads");
  at::Tensor mapped = at::addmm(map_.b, hidden.to(norm_.weight.scalar_type()), map_.a);
  if (tape == nullptr) return rms_norm_forward(norm_, mapped, nullptr).to(compute_type_);
  tape->hidden = std::move(mapped);
  return rms_norm_forward(norm_, tape->hidden, &tape->inverse_rms).to(compute_type_);
}

at::Tensor CalibratedHead::backward(const at::Tensor& dfeatures, const HeadTape& tape) {
  at::Tensor dmapped = at::zeros_like(tape.hidden);
  rms_norm_backward(norm_, dfeatures.to(norm_.weight.scalar_type()), tape.hidden, tape.inverse_rms, dmapped);
  return at::mm(dmapped, map_.a.t()).to(compute_type_);
}

void CalibratedHead::export_fitted(std::map<std::string, at::Tensor>& tensors) const {
  if (!fitted()) return;
  tensors[name_ + ".A"] = map_.a.clone();
  tensors[name_ + ".b"] = map_.b.clone();
}

void CalibratedHead::import_fitted(const std::map<std::string, at::Tensor>& tensors) {
  const auto a = tensors.find(name_ + ".A");
  const auto b = tensors.find(name_ + ".b");
  if (a == tensors.end() || b == tensors.end()) {
    map_ = {};
  } else {
    set_map({a->second, b->second});
  }
}

std::size_t CalibratedHead::bytes() const {
  const std::size_t width = static_cast<std::size_t>(norm_.weight.numel());
  return rows_->matrix.bytes() + norm_.weight.nbytes() + (width + 1) * width * norm_.weight.element_size();
}

double CalibratedHead::operations_per_row() const {
  const auto width = static_cast<double>(norm_.weight.numel());
  return output_operations(rows_->matrix) + 4.0 * width * width;
}

}  // namespace zerolock
