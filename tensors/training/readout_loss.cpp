#include "tensors/training/readout_loss.hpp"

#include <algorithm>

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
  const at::ScalarType wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
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

/// Rows whose logits fit the bound, at least a few.
std::int64_t rows_per_block(std::int64_t rows, std::int64_t outputs, std::size_t element_size, bool two,
                            std::int64_t block_bytes_max) {
  constexpr std::int64_t rows_min = 8;
  const std::int64_t row_bytes = outputs * static_cast<std::int64_t>(element_size) * (two ? 2 : 1);
  return std::min(rows, std::max(rows_min, block_bytes_max / row_bytes));
}

/// Logits of a block of rows: those of the stage, and of the previous readout if the loss looks at it.
class BlockLogits {
 public:
  BlockLogits(const OutputMatrix& matrix, const OutputMatrix* previous_matrix, std::int64_t rows,
              const at::TensorOptions& options)
      : matrix_(matrix),
        previous_matrix_(previous_matrix),
        logits_(at::empty({rows, matrix.outputs()}, options)),
        previous_(previous_matrix != nullptr ? at::empty_like(logits_) : at::Tensor()) {}

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
  const std::int64_t step = rows_per_block(rows, matrix.outputs(), hidden.element_size(), previous != nullptr,
                                           options.block_bytes_max);
  BlockLogits block(matrix, previous_matrix, step, hidden.options());
  const auto block_loss = is_dense_float(hidden) ? block_loss_dense : block_loss_any;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    block.fill(features.narrow(0, first, count),
               previous != nullptr ? previous_features.narrow(0, first, count) : at::Tensor(), scratch);
    const fused::RowLoss sum =
        block_loss(block.logits, block.previous, outputs.data() + first, options, static_cast<double>(rows));
    result.task += sum.task;
    result.consistency += sum.consistency;
    at::Tensor part = dfeatures.narrow(0, first, count);
    matrix.multiply_back(block.logits, part, scratch);
  }
  result.task /= static_cast<double>(rows);
  result.consistency /= static_cast<double>(rows);
  result.loss = options.task_weight * result.task + options.consistency_weight * result.consistency;
  result.dhidden = head.backward(dfeatures, tape);
  return result;
}

}  // namespace zerolock
