#pragma once
/// The readout head of a stage: from a hidden state to logits. Stage k trains through its own head; the
/// distribution p_{k-1} that it is compared with comes from the head of stage k-1 on the hidden state it
/// received.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/model/output_matrix.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/trainable.hpp"

namespace zerolock {

/// What a head keeps between features() and backward().
struct HeadTape {
  at::Tensor hidden;
  at::Tensor inverse_rms;
  std::vector<at::Tensor> more;  // whatever else a head needs
};

/// Logits are features(h) W^T, with W the rows of outputs(). What stands before the product is a head's own
/// affair: the final norm alone, or something trainable or calibrated before it.
class ReadoutHead {
 public:
  virtual ~ReadoutHead() = default;

  /// hidden [n, width] -> [n, outputs().features()]. Fills the tape unless it is null.
  virtual at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const = 0;
  /// Gradient of the features -> gradient of the hidden rows, a new tensor; adds those of the head's own
  /// trainable tensors to their sums.
  virtual at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) = 0;
  [[nodiscard]] virtual const OutputMatrix& outputs() const = 0;
  /// Which output stands for a token. Throws InputError if none does.
  [[nodiscard]] virtual std::int64_t output_of(std::int64_t token) const = 0;

  /// The head's own trainable tensors, "head.<name>"; none for frozen heads.
  virtual std::vector<TrainableTensor> trainable() { return {}; }
  /// Bytes that the head itself occupies: stored rows of the model, or memory of its own.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// Multiplications and additions that one supervised row costs, forward and backward.
  [[nodiscard]] virtual double operations_per_row() const = 0;
};

/// The head that the settings ask for: the model's own norm and readout matrix, or that restricted to some
/// tokens. Throws InputError if a restricted token lies outside the vocabulary or comes twice.
std::unique_ptr<ReadoutHead> make_readout_head(const ModelFiles& model, const LossSettings& settings,
                                               at::ScalarType compute_type,
                                               const WeightTransform& transform = {});

}  // namespace zerolock
