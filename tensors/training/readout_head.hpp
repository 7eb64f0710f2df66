#pragma once
/// The readout head of a stage: from a hidden state to logits. Stage k trains through its own head; the
/// distribution p_{k-1} that it is compared with comes from the head of stage k-1 on the hidden state it
/// received.

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/model/output_matrix.hpp"
#include "tensors/model/rms_norm.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/token_rows.hpp"
#include "tensors/training/trainable.hpp"

namespace zerolock {

/// What a head keeps between features() and backward().
struct HeadTape {
  at::Tensor hidden;
  at::Tensor inverse_rms;
  std::vector<at::Tensor> more;  // whatever else a head needs
};

/// Logits are features(h) W^T, with W the rows of outputs(). What stands before the product is a head's own
/// affair: the final norm alone, or something trainable or fitted, or further frozen layers, before it.
class ReadoutHead {
 public:
  virtual ~ReadoutHead() = default;

  /// hidden [n, width], compute type -> [n, outputs().features()], in the type that outputs() multiplies.
  /// Fills the tape unless it is null.
  virtual at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const = 0;
  /// Gradient of the features -> gradient of the hidden rows, a new tensor in the compute type; adds those of
  /// the head's own trainable tensors to their sums.
  virtual at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) = 0;
  [[nodiscard]] virtual const OutputMatrix& outputs() const = 0;
  /// Which output stands for a token. Throws InputError if none does.
  [[nodiscard]] virtual std::int64_t output_of(std::int64_t token) const = 0;

  /// Whether the rows of outputs() are trained: their gradient then comes from outputs_backward.
  [[nodiscard]] virtual bool trains_outputs() const { return false; }
  /// Adds the gradient of outputs() to its sum: dlogits [n, outputs] and features [n, features] of some rows.
  virtual void outputs_backward(const at::Tensor& dlogits, const at::Tensor& features);

  /// The head's own trainable tensors, "head.<name>"; none for frozen heads.
  virtual std::vector<TrainableTensor> trainable() { return {}; }
  /// Frozen tensors that belong to the stage's state because they were fitted, "head.<name>": copies.
  virtual void export_fitted(std::map<std::string, at::Tensor>& tensors) const;
  /// Takes them over. What is not there has not been fitted yet. Throws InputError for another shape.
  virtual void import_fitted(const std::map<std::string, at::Tensor>& tensors);

  /// Bytes that the head itself occupies: stored rows of the model, and memory of its own with the gradient
  /// sums of what it trains.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// Multiplications and additions that one supervised row costs, forward and backward.
  [[nodiscard]] virtual double operations_per_row() const = 0;
};

/// Where a head stands: its tensors are "<name>.<tensor>"; trainable ones start from the seed and their name.
struct HeadPlace {
  std::string name = "head";
  std::uint64_t seed = 0;
};

/// The head that the settings ask for, over `rows`, which must be those of its restricted_tokens. A
/// calibrated one has no map yet. Throws InputError if the settings do not fit the model.
std::unique_ptr<ReadoutHead> make_readout_head(const ModelFiles& model, const HeadSettings& settings,
                                               const HeadPlace& place, at::ScalarType compute_type,
                                               std::shared_ptr<const TokenRows> rows);

/// The model's final norm, in the given type; charged to "weights".
RmsNorm final_norm(const ModelFiles& model, at::ScalarType type);
/// The type in which heads hold and compute what is theirs: fp64 for fp64, else fp32.
at::ScalarType wide_type(at::ScalarType compute_type);

}  // namespace zerolock
