#pragma once
/// The local loss of a stage on the supervised rows alone:
///   task = mean of -log p[i, y_i],   consistency = mean of KL(p[i] || q[i])   (or KL(q[i] || p[i])),
///   loss = task_weight * task + consistency_weight * consistency,
/// p = softmax of the stage's readout, q = softmax of the previous one, held fixed. In the forms with a
/// target,
///   log p* = task_weight log l + consistency_weight log q - constant,
///   l = (1 - label_smoothing) onehot(y_i) + label_smoothing / outputs,
/// the loss is the mean of -sum p* log p, or of KL(p || p*), and stands for the consistency term as well.
/// The gradient is made in the same pass that makes the loss, in blocks of rows; the logits of more rows than
/// fit a byte bound never exist.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "tensors/model/linear.hpp"
#include "tensors/training/readout_head.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

struct ReadoutLossOptions {
  double task_weight = 1;
  double consistency_weight = 0;
  KlDirection direction = KlDirection::forward;
  /// Bound of the logits that exist at once, of both readouts together. Rows per block follow from it; below
  /// some hundred rows the products get slow, so do not choose it smaller than memory demands.
  std::int64_t block_bytes_max = 48LL << 20;
  LossForm form = LossForm::weighted_terms;
  double label_smoothing = 0.1;
};

/// The readout that the consistency term compares with: rows [n, width] of the hidden state a stage received.
struct PreviousReadout {
  const ReadoutHead* head = nullptr;
  at::Tensor hidden;
};

struct ReadoutLoss {
  double task = 0;
  double consistency = 0;
  double loss = 0;
  at::Tensor dhidden;  // [n, width]; undefined for no rows
};

/// Rows whose logits fit the bound, at least a few: `copies` tensors [rows, outputs] exist at once, of
/// elements of so many bytes.
std::int64_t readout_rows_per_block(std::int64_t rows, std::int64_t outputs, std::int64_t element_size,
                                    std::int64_t copies, std::int64_t block_bytes_max);

/// hidden [n, width]: the stage's output at the supervised rows; targets [n]: token ids. `previous` may be
/// null if consistency_weight is 0; the form is then weighted_terms, whatever the options say. Losses are
/// summed in fp64, row after row. No rows: all zero. Throws InputError for a target that the head has no
/// output for.
ReadoutLoss readout_loss(ReadoutHead& head, const at::Tensor& hidden,
                         const std::vector<std::int64_t>& targets, const PreviousReadout* previous,
                         const ReadoutLossOptions& options, ExpansionScratch& scratch);

}  // namespace zerolock
