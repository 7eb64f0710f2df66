#pragma once
/// What travels through the stages: micro-batches packed without padding.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// The shape of one micro-batch: b sequences laid one after another, no padding rows. Row r of every packed
/// tensor of the micro-batch belongs to the sequence s with sequence_offsets[s] <= r < sequence_offsets[s +
/// 1], at position r - sequence_offsets[s]. Immutable once made and shared by all stages.
struct MicroBatchLayout {
  std::vector<std::int64_t> sequence_offsets{0};  // [sequences + 1], rising, from 0 to the number of rows
  std::vector<std::int64_t> supervised_rows;  // Omega: ascending rows whose NEXT token is a supervised label
  std::vector<std::int64_t> targets;          // [Omega] that next token's id

  [[nodiscard]] std::int64_t sequences() const {
    return static_cast<std::int64_t>(sequence_offsets.size()) - 1;
  }
  [[nodiscard]] std::int64_t rows() const { return sequence_offsets.back(); }
  /// Throws std::logic_error unless the offsets rise and rows and targets agree.
  void check() const;
};

/// What crosses a boundary for one micro-batch. Moves by reference inside a process: the payload is never
/// written to after it was sent.
struct Entry {
  BatchPosition position;
  Incarnation producer;  // the life of the stage worker that made it; 0 for the batch source
  std::shared_ptr<const MicroBatchLayout> layout;
  /// Boundary 0: token ids, int64 [rows], unless the source embeds them. Else the hidden state that goes into
  /// the stage, compute type [rows, width].
  at::Tensor payload;

  /// Bytes of the payload.
  [[nodiscard]] std::size_t bytes() const { return payload.defined() ? payload.nbytes() : 0; }
};

}  // namespace zerolock
