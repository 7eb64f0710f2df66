#pragma once
/// The model's own head: final norm, then all rows of the readout matrix or some of them.

#include <memory>

#include "tensors/training/readout_head.hpp"

namespace zerolock {

class FrozenHead final : public ReadoutHead {
 public:
  /// The norm in the compute type.
  FrozenHead(RmsNorm norm, std::shared_ptr<const TokenRows> rows);

  at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const override;
  at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) override;
  [[nodiscard]] const OutputMatrix& outputs() const override { return rows_->matrix; }
  [[nodiscard]] std::int64_t output_of(std::int64_t token) const override {
    return rows_->index.output_of(token);
  }
  [[nodiscard]] std::size_t bytes() const override;
  [[nodiscard]] double operations_per_row() const override;

 private:
  RmsNorm norm_;
  std::shared_ptr<const TokenRows> rows_;
};

/// Multiplications and additions of one row's logits and of their gradient's way back.
double output_operations(const OutputMatrix& outputs);

}  // namespace zerolock
