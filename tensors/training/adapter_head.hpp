#pragma once
/// A small residual MLP, trained along, before the model's readout rows: with u = FinalNorm(h), the features
/// are u + SiLU(u W1^T) W2^T. W2 starts at zero, so the head starts as the model's own.

#include <memory>

#include "tensors/training/readout_head.hpp"

namespace zerolock {

class AdapterHead final : public ReadoutHead {
 public:
  /// The norm in the wide type. Its tensors are "<name>.W1" [features, width] and "<name>.W2" [width,
  /// features]; values and gradients are charged to "optimizer".
  AdapterHead(const HeadPlace& place, std::int64_t features, RmsNorm norm, at::ScalarType compute_type,
              std::shared_ptr<const TokenRows> rows);

  at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const override;
  at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) override;
  [[nodiscard]] const OutputMatrix& outputs() const override { return rows_->matrix; }
  [[nodiscard]] std::int64_t output_of(std::int64_t token) const override {
    return rows_->index.output_of(token);
  }
  std::vector<TrainableTensor> trainable() override { return {w1_, w2_}; }
  [[nodiscard]] std::size_t bytes() const override;
  [[nodiscard]] double operations_per_row() const override;

 private:
  RmsNorm norm_;
  at::ScalarType compute_type_;
  std::shared_ptr<const TokenRows> rows_;
  TrainableTensor w1_;
  TrainableTensor w2_;
};

}  // namespace zerolock
