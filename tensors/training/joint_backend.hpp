#pragma once
/// A backend that can do several micro-batches of a window in one call: fewer and larger products, and each
/// weight is expanded once for all of them. What a stage does that was away, and finds many waiting.

#include <ATen/ATen.h>

#include <vector>

#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Beside StageBackend, of the same object. Gradients are those of one micro-batch after the other, added in
/// order. Whether they have the same bits depends on whether a row of a matrix product does, however many
/// rows there are.
class JointBackend {
 public:
  virtual ~JointBackend() = default;

  /// StageBackend::begin of each, in order, which follow one another. The hidden states may share memory with
  /// one another.
  virtual std::vector<at::Tensor> begin_together(const std::vector<Entry>& entries) = 0;
  /// StageBackend::finish of each, in order: of exactly those that began together.
  virtual std::vector<LossReport> finish_together(const std::vector<BatchPosition>& positions) = 0;
};

}  // namespace zerolock
