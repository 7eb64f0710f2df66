#pragma once
/// What a stage reads its loss through: its own head, the previous stage's, and the fit of both.

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensors/base/indices.hpp"
#include "tensors/training/calibrated_head.hpp"
#include "tensors/training/calibration_rows.hpp"
#include "tensors/training/readout_head.hpp"
#include "tensors/training/readout_loss.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// The readout that a stage's loss compares with.
struct PreviousHead {
  HeadSettings settings;     // over the stage's own tokens
  bool same_as_own = false;  // both read alike: the stage's own head serves for both
};

/// Of a stage of a run of so many; nothing if its loss does not compare or the stage is not trained. Throws
/// InputError if the previous stage's readout changes while it is trained.
std::optional<PreviousHead> previous_head(const TrainingSettings& settings, StageIndex stage,
                                          std::uint64_t stages);

/// A stage that is not trained has no heads: its readout only takes part in calibration. Tensors are named
/// after the layer they stand behind, "head.model.layers.9.readout.A" for the last layer of the chunk and
/// "head.model.layers.10.previous_readout.A" for its first, so that states can be cut for another partition.
class StageReadout {
 public:
  /// Throws InputError if settings and model do not fit, or if the previous stage's readout changes while it
  /// is trained and the loss compares with it.
  StageReadout(const ModelFiles& model, StageIndex stage, const std::vector<LayerRange>& partition,
               const TrainingSettings& settings, const WeightTransform& transform);

  /// Whether the loss looks at the readout of the hidden state that the stage received.
  [[nodiscard]] bool compares() const { return previous_ != nullptr; }
  /// The stage's own head; null if the stage is not trained.
  [[nodiscard]] ReadoutHead* head() { return own_.get(); }
  /// The head that reads what the stage received; null unless compares().
  [[nodiscard]] const ReadoutHead* previous() const { return previous_; }
  /// Whether a head multiplies the model's readout matrix as it lies in its file.
  [[nodiscard]] bool reads_model_rows() const { return reads_model_rows_; }
  [[nodiscard]] std::vector<TrainableTensor> trainable() const;
  /// Optimizer steps in which the head alone is trained.
  [[nodiscard]] std::uint64_t warm_up() const { return warm_up_; }

  /// The local loss on the supervised rows: hidden [n, width], what the stage made of them, and received,
  /// which is looked at if compares().
  ReadoutLoss loss(const at::Tensor& hidden, const at::Tensor& received,
                   const std::vector<std::int64_t>& targets, ExpansionScratch& scratch);

  [[nodiscard]] bool needs_calibration() const;
  /// Keeps what the fit needs of a micro-batch's supervised rows [n, width]: those the stage made of them and
  /// those it received.
  void keep_for_calibration(const at::Tensor& hidden, const at::Tensor& received);
  /// Of the last stage: the rows it made. Undefined for the others.
  [[nodiscard]] at::Tensor calibration_targets() const { return target_rows_.all(); }
  /// Fits what is not fitted yet and lets go of the rows. Throws RunError.
  void fit(const at::Tensor& targets);

  void export_fitted(std::map<std::string, at::Tensor>& tensors) const;
  void import_fitted(const std::map<std::string, at::Tensor>& tensors);

 private:
  void fit(CalibratedHead& head, const CalibrationRows& rows, const at::Tensor& targets) const;
  [[nodiscard]] ReadoutLossOptions loss_options() const;

  LossSettings settings_;
  bool task_only_;              // the first stage, unless it is told to compare
  double ridge_;                // of the calibrated inner heads
  bool gives_targets_ = false;  // the last stage of a run with calibrated heads
  std::uint64_t warm_up_ = 0;
  bool reads_model_rows_ = false;
  std::unique_ptr<ReadoutHead> own_;
  std::unique_ptr<ReadoutHead> previous_of_its_own_;
  const ReadoutHead* previous_ = nullptr;     // that, or own_ if both read alike
  CalibratedHead* calibrated_own_ = nullptr;  // own_ and previous_, if they are of that kind
  CalibratedHead* calibrated_previous_ = nullptr;
  CalibrationRows own_rows_;
  CalibrationRows previous_rows_;
  CalibrationRows target_rows_;
};

}  // namespace zerolock
