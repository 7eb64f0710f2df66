#include "tensors/training/frozen_head.hpp"

#include <utility>

namespace zerolock {

double output_operations(const OutputMatrix& outputs) {
  return 4.0 * static_cast<double>(outputs.outputs()) * static_cast<double>(outputs.features());
}

FrozenHead::FrozenHead(RmsNorm norm, std::shared_ptr<const TokenRows> rows)
    : norm_(std::move(norm)), rows_(std::move(rows)) {}

at::Tensor FrozenHead::features(const at::Tensor& hidden, HeadTape* tape) const {
  if (tape == nullptr) return rms_norm_forward(norm_, hidden, nullptr);
  tape->hidden = hidden;
  return rms_norm_forward(norm_, hidden, &tape->inverse_rms);
}

at::Tensor FrozenHead::backward(const at::Tensor& dfeatures, const HeadTape& tape) {
  at::Tensor dhidden = at::zeros_like(tape.hidden);
  rms_norm_backward(norm_, dfeatures, tape.hidden, tape.inverse_rms, dhidden);
  return dhidden;
}

std::size_t FrozenHead::bytes() const {
  return rows_->matrix.bytes() + norm_.weight.nbytes();
}

double FrozenHead::operations_per_row() const {
  return output_operations(rows_->matrix);
}

}  // namespace zerolock
