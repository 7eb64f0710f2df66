#pragma once
/// A low-rank head: FinalNorm(h) D^T U^T with D [rank, width] and U [outputs, rank] from the truncated
/// singular value decomposition of the model's readout rows, W = (U_r S^1/2) (S^1/2 V_r^T): the best of its
/// rank.

#include <string>

#include "tensors/training/readout_head.hpp"

namespace zerolock {

class BottleneckHead final : public ReadoutHead {
 public:
  /// The norm in the wide type; `rows` are factored and not kept. Its tensors are "<name>.D" and "<name>.U",
  /// charged to "optimizer" if they are trained, else to "weights". Throws InputError if the rank is more
  /// than width or outputs allow.
  BottleneckHead(std::string name, const HeadSettings& settings, RmsNorm norm, at::ScalarType compute_type,
                 const TokenRows& rows);

  at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const override;
  at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) override;
  [[nodiscard]] const OutputMatrix& outputs() const override { return outputs_; }
  [[nodiscard]] std::int64_t output_of(std::int64_t token) const override { return index_.output_of(token); }
  [[nodiscard]] bool trains_outputs() const override { return trained_; }
  void outputs_backward(const at::Tensor& dlogits, const at::Tensor& features) override;
  std::vector<TrainableTensor> trainable() override;
  /// D and U of a frozen one: the decomposition is not repeated, and is the same on any machine.
  void export_fitted(std::map<std::string, at::Tensor>& tensors) const override;
  void import_fitted(const std::map<std::string, at::Tensor>& tensors) override;
  [[nodiscard]] std::size_t bytes() const override;
  [[nodiscard]] double operations_per_row() const override;

 private:
  RmsNorm norm_;
  at::ScalarType compute_type_;
  bool trained_;
  TokenIndex index_;
  TrainableTensor down_;  // gradients are undefined if frozen
  TrainableTensor up_;
  OutputMatrix outputs_;  // shares up_.value
};

}  // namespace zerolock
