#pragma once
/// Micro-batches that run through a chunk as one: their sequences stand in a row, and each keeps its own
/// rows, losses and LoRA gradients.

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/model/chunk.hpp"

namespace zerolock {

class JointMicroBatches {
 public:
  void add(const Entry& entry);

  /// In the order in which they were added, as all that follows.
  [[nodiscard]] const std::vector<BatchPosition>& positions() const { return positions_; }
  [[nodiscard]] const std::vector<std::int64_t>& sequence_offsets() const { return sequence_offsets_; }
  /// Supervised ones of all, counted from the first one's first row; int64.
  [[nodiscard]] at::Tensor supervised_rows() const { return at::tensor(supervised_rows_, at::kLong); }
  /// Where one ends and the next begins.
  [[nodiscard]] const ChunkParts& parts() const { return parts_; }
  /// A view of the rows that the micro-batch of that number has in what is of all.
  [[nodiscard]] at::Tensor rows_of(std::size_t number, const at::Tensor& all) const;

  ChunkTape tape;  // of all; left by the forward for the backward

 private:
  std::vector<BatchPosition> positions_;
  std::vector<std::int64_t> sequence_offsets_{0};
  std::vector<std::int64_t> supervised_rows_;
  ChunkParts parts_{{0}, {0}};
};

}  // namespace zerolock
