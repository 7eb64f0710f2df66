#pragma once
/// Frozen linear layers over stored weights: expanded at each use into a scratch that a stage reuses for all
/// of them.

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "tensors/files/stored_tensor.hpp"
#include "tensors/model/lora.hpp"

namespace zerolock {

/// Where stored weights become matrices of the compute type. It grows to the largest weight and stays;
/// charged to the component "weights". One per stage: not thread-safe.
class ExpansionScratch {
 public:
  explicit ExpansionScratch(at::ScalarType compute_type) : compute_type_(compute_type) {}

  /// Rows first..first+count-1 of the weight as a matrix [count, row_elements], valid until the next call.
  /// Rows that are stored in the compute type are not copied.
  at::Tensor expand(const StoredTensor& weight, std::int64_t first, std::int64_t count);
  at::Tensor expand(const StoredTensor& weight) { return expand(weight, 0, weight.rows()); }
  /// Elements that fit without growing.
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Makes room for `elements`, so that the first use does not have to.
  void reserve(std::int64_t elements);
  [[nodiscard]] at::ScalarType compute_type() const { return compute_type_; }

 private:
  at::ScalarType compute_type_;
  std::int64_t capacity_ = 0;
  at::Tensor expanded_;   // fp32
  at::Tensor converted_;  // compute type, if that is another one
};

/// y = x W^T + bias with W [out, in] frozen.
struct FrozenLinear {
  StoredTensor weight;
  at::Tensor bias;  // [out], compute type; undefined if there is none

  [[nodiscard]] std::int64_t in() const { return weight.row_elements(); }
  [[nodiscard]] std::int64_t out() const { return weight.rows(); }
};

/// A frozen linear layer and its LoRA pair, if it is adapted.
struct AdaptedLinear {
  FrozenLinear frozen;
  std::optional<LoraPair> lora;
};

/// y = x W^T + bias (+ LoRA), x [rows, in] -> [rows, out]. `projected` receives what backward needs of the
/// LoRA pair unless it is null.
at::Tensor linear_forward(const AdaptedLinear& linear, const at::Tensor& x, ExpansionScratch& scratch,
                          at::Tensor* projected);

/// residual + linear(x), for layers without a bias; the residual is not changed.
at::Tensor linear_forward_onto(const AdaptedLinear& linear, const at::Tensor& x, const at::Tensor& residual,
                               ExpansionScratch& scratch, at::Tensor* projected);

/// dx = dy W (+ LoRA), added to dx if it is defined, and the LoRA gradients added to their sums. x is only
/// looked at if the layer is adapted. `parts`: of the rows, as in lora_backward, here and below.
void linear_backward(AdaptedLinear& linear, const at::Tensor& dy, const at::Tensor& x,
                     const at::Tensor& projected, ExpansionScratch& scratch, at::Tensor& dx,
                     const RowParts& parts);

/// The LoRA gradients alone, where nobody needs the input's.
void linear_backward_parameters(AdaptedLinear& linear, const at::Tensor& dy, const at::Tensor& x,
                                const at::Tensor& projected, const RowParts& parts);

}  // namespace zerolock
