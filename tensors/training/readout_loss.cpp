#include "tensors/training/readout_loss.hpp"

#include <algorithm>
#include <cmath>

#include "tensors/base/error.hpp"
#include "tensors/model/fused_loops.hpp"
#include "tensors/model/tensor_kind.hpp"

namespace zerolock {
namespace {

/// Sums over one block, and the logits replaced by the gradient of the mean.
fused::RowLoss block_loss_dense(const at::Tensor& logits, const at::Tensor& previous,
                                const std::int64_t* outputs, const ReadoutLossOptions& options, double rows) {
  fused::RowLoss sum;
  const std::int64_t count = logits.size(1);
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    float* z = logits.data_ptr<float>() + i * count;
    fused::RowLoss row;
    if (previous.defined()) {
      row = fused::consistent_loss_row(z, previous.data_ptr<float>() + i * count, count, outputs[i],
                                       options.task_weight / rows, options.consistency_weight / rows,
                                       options.direction == KlDirection::reverse);
    } else {
      row.task = fused::cross_entropy_row(z, count, outputs[i], options.task_weight / rows);
    }
    sum.task += row.task;
    sum.consistency += row.consistency;
  }
  return sum;
}

/// The same for any type. d KL(p||q) / dz = p (log p - log q - KL), d KL(q||p) / dz = p - q.
fused::RowLoss block_loss_any(const at::Tensor& logits, const at::Tensor& previous,
                              const std::int64_t* outputs, const ReadoutLossOptions& options, double rows) {
  const at::ScalarType wide = wide_type(logits.scalar_type());
  const at::Tensor log_p = at::log_softmax(logits.to(wide), 1);
  const at::Tensor p = log_p.exp();
  const at::Tensor columns =
      at::tensor(c10::IntArrayRef(outputs, static_cast<std::size_t>(logits.size(0))), at::kLong).unsqueeze(1);
  fused::RowLoss sum;
  sum.task = -log_p.gather(1, columns).sum(at::kDouble).item<double>();
  at::Tensor gradient = p.mul(options.task_weight);
  gradient.scatter_add_(1, columns, at::full_like(columns, -options.task_weight, gradient.options()));
  if (previous.defined()) {
    const at::Tensor log_q = at::log_softmax(previous.to(wide), 1);
    const at::Tensor difference = log_p.sub(log_q);
    if (options.direction == KlDirection::forward) {
      const at::Tensor divergence = p.mul(difference).sum(1, true, at::kDouble);
      sum.consistency = divergence.sum().item<double>();
      gradient.add_(difference.sub(divergence.to(wide)).mul_(p), options.consistency_weight);
    } else {
      const at::Tensor q = log_q.exp();
      sum.consistency = -q.mul(difference).sum(at::kDouble).item<double>();
      gradient.add_(p.sub(q), options.consistency_weight);
    }
  }
  logits.copy_(gradient.div_(rows));
  return sum;
}

/// The forms with a target. d(-sum p* log p) / dz = p - p*, d KL(p||p*) / dz = p (log p - log p* - KL).
fused::RowLoss block_loss_target(const at::Tensor& logits, const at::Tensor& previous,
                                 const std::int64_t* outputs, const ReadoutLossOptions& options,
                                 double rows) {
  const at::ScalarType wide = wide_type(logits.scalar_type());
  const at::Tensor log_p = at::log_softmax(logits.to(wide), 1);
  const at::Tensor p = log_p.exp();
  const at::Tensor columns =
      at::tensor(c10::IntArrayRef(outputs, static_cast<std::size_t>(logits.size(0))), at::kLong).unsqueeze(1);
  const double share = options.label_smoothing / static_cast<double>(logits.size(1));
  const double label_step = std::log(1 - options.label_smoothing + share) - std::log(share);
  // log l is the same for all outputs but the label's, up to the constant that the softmax takes away.
  at::Tensor log_target = at::log_softmax(previous.to(wide), 1).mul_(options.consistency_weight);
  log_target.scatter_add_(1, columns,
                          at::full(columns.sizes(), options.task_weight * label_step, log_target.options()));
  log_target = at::log_softmax(log_target, 1);
  fused::RowLoss sum;
  sum.task = -log_p.gather(1, columns).sum(at::kDouble).item<double>();
  if (options.form == LossForm::target_cross_entropy) {
    const at::Tensor target = log_target.exp();
    sum.consistency = -target.mul(log_p).sum(at::kDouble).item<double>();
    logits.copy_(p.sub(target).div_(rows));
  } else {
    const at::Tensor difference = log_p.sub(log_target);
    const at::Tensor divergence = p.mul(difference).sum(1, true, at::kDouble);
    sum.consistency = divergence.sum().item<double>();
    logits.copy_(difference.sub(divergence.to(wide)).mul_(p).div_(rows));
  }
  return sum;
}

/// Logits of a block of rows: those of the stage, and of the previous readout if the loss looks at it.
class BlockLogits {
 public:
  /// features and previous_features have the types of the logits; the latter may be undefined.
  BlockLogits(const OutputMatrix& matrix, const OutputMatrix* previous_matrix, std::int64_t rows,
              const at::Tensor& features, const at::Tensor& previous_features)
      : matrix_(matrix),
        previous_matrix_(previous_matrix),
        logits_(at::empty({rows, matrix.outputs()}, features.options())) {
    if (previous_matrix != nullptr) {
      previous_ = at::empty({rows, matrix.outputs()}, previous_features.options());
    }
  }

  /// Computes the logits of these rows of features; previous_features is undefined if there is no previous
  /// readout.
  void fill(const at::Tensor& features, const at::Tensor& previous_features, ExpansionScratch& scratch) {
    logits = logits_.narrow(0, 0, features.size(0));
    if (previous_.defined()) previous = previous_.narrow(0, 0, features.size(0));
    if (previous_matrix_ == nullptr || previous_matrix_ == &matrix_) {  // one pass over the matrix for both
      matrix_.multiply(features, logits, previous_features, previous, scratch);
    } else {
      matrix_.multiply(features, logits, scratch);
      previous_matrix_->multiply(previous_features, previous, scratch);
    }
  }

  at::Tensor logits;    // [n, outputs] of the rows that fill was given
  at::Tensor previous;  // the same, or undefined

 private:
  const OutputMatrix& matrix_;
  const OutputMatrix* previous_matrix_;
  at::Tensor logits_;
  at::Tensor previous_;
};

}  // namespace

std::int64_t readout_rows_per_block(std::int64_t rows, std::int64_t outputs, std::int64_t element_size,
                                    std::int64_t copies, std::int64_t block_bytes_max) {
  constexpr std::int64_t rows_min = 8;
  const std::int64_t row_bytes = outputs * element_size * copies;
  return std::min(rows, std::max(rows_min, block_bytes_max / row_bytes));
}

ReadoutLoss readout_loss(ReadoutHead& head, const at::Tensor& hidden,
                         const std::vector<std::int64_t>& targets, const PreviousReadout* previous,
                         const ReadoutLossOptions& options, ExpansionScratch& scratch) {
  ReadoutLoss result;
  const auto rows = static_cast<std::int64_t>(targets.size());
  if (rows == 0) return result;
  ZEROLOCK_INVARIANT(hidden.size(0) == rows, "a hidden row for each target");
  ZEROLOCK_INVARIANT(previous != nullptr || options.consistency_weight == 0,
                     "a readout to be consistent with");
  std::vector<std::int64_t> outputs;
  for (const std::int64_t token : targets) outputs.push_back(head.output_of(token));

  const OutputMatrix& matrix = head.outputs();
  const OutputMatrix* previous_matrix = previous != nullptr ? &previous->head->outputs() : nullptr;
  ZEROLOCK_INVARIANT(previous == nullptr || previous_matrix->outputs() == matrix.outputs(),
                     "both readouts speak of the same tokens");
  HeadTape tape;
  const at::Tensor features = head.features(hidden, &tape);
  const at::Tensor previous_features =
      previous != nullptr ? previous->head->features(previous->hidden, nullptr) : at::Tensor();
  at::Tensor dfeatures = at::empty_like(features);
  const bool has_target = previous != nullptr && options.form != LossForm::weighted_terms;
  // The forms with a target go through several tensors of the logits' shape.
  const std::int64_t copies = has_target ? 8 : previous != nullptr ? 2 : 1;
  const std::int64_t step =
      readout_rows_per_block(rows, matrix.outputs(), static_cast<std::int64_t>(features.element_size()),
                             copies, options.block_bytes_max);
  BlockLogits block(matrix, previous_matrix, step, features, previous_features);
  const bool dense = is_dense_float(features) && (previous == nullptr || is_dense_float(previous_features));
  const auto block_loss = has_target ? block_loss_target : dense ? block_loss_dense : block_loss_any;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    block.fill(features.narrow(0, first, count),
               previous != nullptr ? previous_features.narrow(0, first, count) : at::Tensor(), scratch);
    const fused::RowLoss sum =
        block_loss(block.logits, block.previous, outputs.data() + first, options, static_cast<double>(rows));
    result.task += sum.task;
    result.consistency += sum.consistency;
    if (head.trains_outputs()) head.outputs_backward(block.logits, features.narrow(0, first, count));
    at::Tensor part = dfeatures.narrow(0, first, count);
    matrix.multiply_back(block.logits, part, scratch);
  }
  result.task /= static_cast<double>(rows);
  result.consistency /= static_cast<double>(rows);
  result.loss = has_target
                    ? result.consistency
                    : options.task_weight * result.task + options.consistency_weight * result.consistency;
  result.dhidden = head.backward(dfeatures, tape);
  return result;
}

}  // namespace zerolock
