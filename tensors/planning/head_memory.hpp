#pragma once
/// The memory that a readout head takes: to be made, to stand there, and to make a loss through it. Follows
/// the heads' files and readout_loss.cpp step by step.

#include <optional>

#include "tensors/planning/memory_walk.hpp"
#include "tensors/planning/model_sizes.hpp"
#include "tensors/training/stage_readout.hpp"

namespace zerolock {

/// A head of a model under settings that say in which types it is held and multiplied.
class HeadMemory {
 public:
  /// All must outlive this. Throws InputError for settings that the model has no head for.
  HeadMemory(const HeadSettings& head, const ModelSizes& model, const TrainingSettings& settings);

  /// Bytes that ReadoutHead::bytes() reports, the model's own rows included.
  [[nodiscard]] std::int64_t bytes() const;
  /// Bytes of its trainable values; as much again for their gradients, and twice that for AdamW's moments.
  [[nodiscard]] std::int64_t trainable_bytes() const;
  /// Bytes of what is fitted or factored and belongs to the stage's state without being trained.
  [[nodiscard]] std::int64_t fitted_bytes() const;
  /// Whether it multiplies the model's rows, all of them or those of some tokens.
  [[nodiscard]] bool reads_model_rows() const { return head_.kind != HeadKind::bottleneck; }

  /// Takes what stands there once it is made (and fitted), its model rows excluded; its making may have
  /// needed more.
  void make(MemoryWalk& walk) const;
  /// readout_loss of so many rows, next to `previous` if the loss compares. Leaves the gradient of the hidden
  /// rows, charged to "loss".
  void loss(std::int64_t rows, const std::optional<PreviousHead>& previous, MemoryWalk& walk) const;
  [[nodiscard]] std::int64_t outputs() const { return outputs_; }

 private:
  /// What features() keeps for backward(), what it gives, and what it needs in between.
  struct Features {
    std::int64_t tape = 0;
    std::int64_t result = 0;
    std::int64_t scratch = 0;
  };
  [[nodiscard]] Features features(std::int64_t rows) const;
  [[nodiscard]] std::int64_t backward_scratch(std::int64_t rows) const;
  [[nodiscard]] std::int64_t block_copies(bool compares, bool dense) const;
  [[nodiscard]] std::int64_t logit_bytes(const HeadSettings& head) const;
  [[nodiscard]] std::int64_t factors_bytes() const;
  void make_factors(MemoryWalk& walk) const;

  const HeadSettings& head_;
  const ModelSizes& model_;
  const TrainingSettings& settings_;
  std::int64_t element_;  // bytes of the compute type
  std::int64_t wide_;     // of the type in which heads hold what is theirs
  std::int64_t width_;
  std::int64_t outputs_;
};

}  // namespace zerolock
