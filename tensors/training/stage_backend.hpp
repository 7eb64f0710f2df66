#pragma once
/// What a stage worker trains: begin forwards a micro-batch, finish computes the local loss and its gradient,
/// step applies the window's gradient. The worker knows nothing else of models.

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>

#include "tensors/base/entry.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// What one micro-batch's local loss was. Means over Omega; all zero when Omega is empty.
struct LossReport {
  double task_loss = 0;
  double consistency_loss = 0;  // 0 where the stage has no consistency term
  double loss = 0;              // what was differentiated
  std::int64_t supervised_rows = 0;
  std::int64_t examples = 0;
};

/// How far the gradient of a stage's loss reaches.
enum class GradientReach : std::uint8_t {
  stage,    // every stage has a loss of its own, and nothing crosses a boundary backwards
  model,    // the last stage's loss reaches all stages; weights stand still while micro-batches are open
  stashed,  // the same, but steps may come in between: a micro-batch's backward uses the weights that its
            // forward had, which are kept for it (PipeDream, Narayanan et al. 2019)
};

/// What one optimizer step did.
struct StepReport {
  double learning_rate = 0;
  double gradient_norm = 0;  // of the window's mean gradient, before clipping
  std::int64_t micro_batches = 0;
};

/// Everything a stage needs to go on from a window: named tensors (CPU, contiguous, owned by the state) and
/// text. Names carry the layer, so that states can be cut again for another partition: "lora.<PEFT name>",
/// "optimizer.first_moment.<PEFT name>", "optimizer.second_moment.<PEFT name>", "head.<name>". A stage that
/// is not trained has its adapter as it stands, and no moments.
struct StageState {
  WindowIndex window;  // the last committed one
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;  // "optimizer.steps" and the like
};

/// What the backward of one micro-batch made.
struct BackwardResult {
  LossReport report;  // losses are not numbers (NaN) where the stage has none
  /// Of what the stage received, compute type [rows, width], for the stage before; undefined for the first
  /// stage, and where nothing is supervised.
  at::Tensor input_gradient;
};

/// One stage's numbers. Before training, stages whose readout has to be fitted are calibrated together: the
/// same entries go through calibrate_begin of every stage in order, the last stage's calibration_targets to
/// calibrate_finish of every stage (calibration.hpp does so for stages of one process). What is fitted is
/// part of the state. Used by one thread at a time. Any exception leaves the backend unusable until
/// restore().
class StageBackend {
 public:
  virtual ~StageBackend() = default;

  /// Forward of one micro-batch; keeps what finish needs. Several may be open at once. Returns the hidden
  /// state to send on, compute type [rows, width], detached; it shares no memory that the backend will write
  /// to.
  virtual at::Tensor begin(const Entry& entry) = 0;
  /// Local loss and backward of a micro-batch that begin opened; its gradient is added to the window's sum.
  /// Throws RunError naming the position if loss or gradient is not finite.
  virtual LossReport finish(const BatchPosition& position) = 0;
  /// Instead of finish, where the last stage's loss reaches all stages. `output_gradient`: of what begin
  /// returned, as the next stage's backward made it; it is overwritten, and undefined for the last stage and
  /// where nothing is supervised. Micro-batches may be finished in any order. Throws std::logic_error if the
  /// backend was not made for it.
  virtual BackwardResult backpropagate(const BatchPosition& position, at::Tensor output_gradient);
  /// Divides the summed gradient by the number of finished micro-batches and applies it.
  virtual StepReport step(WindowIndex window) = 0;

  /// Whether this stage waits for its calibration: it may not begin before. If any stage of a run does, all
  /// take part. False once the state that was restored, or calibrate_finish, brought what is fitted.
  [[nodiscard]] virtual bool needs_calibration() const { return false; }
  /// Forward of the base model, without the adapter; keeps the supervised rows that the fit needs, up to the
  /// settings' bound. Returns the hidden state to send on, like begin; its position names nothing and is not
  /// finished. Throws std::logic_error if the backend knows of no calibration.
  virtual at::Tensor calibrate_begin(const Entry& entry);
  /// The rows that the others are fitted to, [rows, width] fp32 or fp64, a copy: of the last stage, after all
  /// entries; undefined for the others.
  [[nodiscard]] virtual at::Tensor calibration_targets() const { return {}; }
  /// Fits what has to be fitted to the last stage's calibration_targets, and lets go of the rows. Throws
  /// RunError if they are not those of the entries that this stage saw, or if there is no solution.
  virtual void calibrate_finish(const at::Tensor& /*targets*/) {}

  /// A copy of the committed state: may be written out by another thread while training goes on.
  [[nodiscard]] virtual StageState state() const = 0;
  /// Back to exactly that state: open micro-batches and gradients are dropped.
  virtual void restore(const StageState& state) = 0;
};

}  // namespace zerolock
