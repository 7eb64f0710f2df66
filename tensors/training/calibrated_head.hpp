#pragma once
/// Tuned-lens-like head (Belrose et al. 2023, here fitted in closed form): FinalNorm(h A + b), then the
/// model's readout rows. A and b are frozen once fitted.

#include <memory>
#include <string>

#include "tensors/training/affine_map.hpp"
#include "tensors/training/readout_head.hpp"

namespace zerolock {

class CalibratedHead final : public ReadoutHead {
 public:
  /// The norm in the wide type. Its tensors are "<name>.A" and "<name>.b".
  CalibratedHead(std::string name, RmsNorm norm, at::ScalarType compute_type,
                 std::shared_ptr<const TokenRows> rows);

  [[nodiscard]] bool fitted() const { return map_.defined(); }
  /// Copies the map; charged to "weights". Throws InputError for another shape.
  void set_map(const AffineMap& map);

  at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const override;
  at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) override;
  [[nodiscard]] const OutputMatrix& outputs() const override { return rows_->matrix; }
  [[nodiscard]] std::int64_t output_of(std::int64_t token) const override {
    return rows_->index.output_of(token);
  }
  void export_fitted(std::map<std::string, at::Tensor>& tensors) const override;
  /// Without both tensors the head is unfitted again.
  void import_fitted(const std::map<std::string, at::Tensor>& tensors) override;
  /// With the map, fitted or not.
  [[nodiscard]] std::size_t bytes() const override;
  [[nodiscard]] double operations_per_row() const override;

 private:
  std::string name_;
  RmsNorm norm_;
  at::ScalarType compute_type_;
  std::shared_ptr<const TokenRows> rows_;
  AffineMap map_;
};

}  // namespace zerolock
