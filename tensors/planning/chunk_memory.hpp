#pragma once
/// The memory that a chunk's forward and backward take, step by step as chunk.cpp and decoder_layer.cpp do.

#include "tensors/planning/memory_walk.hpp"
#include "tensors/planning/model_sizes.hpp"

namespace zerolock {

/// Walks through one micro-batch of a chunk whose layers all have the same shape. Callers give back what a
/// step leaves by calling the next one.
class ChunkMemory {
 public:
  /// `adapted`: LoRA pairs take part. The walk must outlive this.
  ChunkMemory(const ModelConfig& config, const TrainingSettings& settings, std::int64_t layers,
              const MicroBatchShape& shape, bool adapted, MemoryWalk& walk);

  /// Chunk::forward. `tape`: for a backward, by which layers' inputs (with recomputation) or whole tapes
  /// stay. Leaves the output, charged to "buffers".
  void forward(bool tape);
  /// Chunk::backward behind a forward with a tape, given the gradient of some rows, which is not counted.
  void backward(std::int64_t gradient_rows);
  /// Bytes of a hidden state.
  [[nodiscard]] std::int64_t hidden_bytes() const { return hidden_; }
  /// Cosines and sines, once made.
  [[nodiscard]] std::int64_t rotary_bytes() const;

 private:
  /// Bytes that one layer's tape holds of its own, its input excluded.
  struct Tape {
    std::int64_t attention = 0;     // query, key, value, the output and its log-sums
    std::int64_t feed_forward = 0;  // gate and up
    std::int64_t middle = 0;        // the residual stream between the halves
    std::int64_t rest = 0;          // norms' factors and LoRA projections
    [[nodiscard]] std::int64_t all() const { return attention + feed_forward + middle + rest; }
  };

  [[nodiscard]] std::int64_t matrix(std::int64_t rows, std::int64_t columns) const {
    return rows * columns * element_;
  }
  [[nodiscard]] bool adapts(Projection p) const;
  [[nodiscard]] std::int64_t norm_scratch(std::int64_t rows) const;
  [[nodiscard]] std::int64_t norm_backward_scratch(std::int64_t rows) const;
  [[nodiscard]] std::int64_t attention_scratch() const;
  [[nodiscard]] std::int64_t attention_backward_scratch() const;
  void record();
  void layer_forward(bool keeps_tape, MemoryComponent output);
  void layer_backward(bool need_input_gradient);
  void layer_backward_from_rows(std::int64_t rows, bool need_input_gradient);
  void feed_forward_backward(std::int64_t rows, std::int64_t tape_rows);
  void attention_backward();
  void input_backward(bool need_input_gradient);

  void take(std::int64_t bytes) { walk_.take(MemoryComponent::activations, bytes); }
  void give(std::int64_t bytes) { walk_.give(MemoryComponent::activations, bytes); }
  void touch(std::int64_t bytes) { walk_.touch(MemoryComponent::activations, bytes); }

  const ModelConfig& config_;
  const TrainingSettings& settings_;
  std::int64_t layers_;
  const MicroBatchShape& shape_;
  bool adapted_;
  MemoryWalk& walk_;
  std::int64_t element_;  // bytes of the compute type
  std::int64_t wide_;     // of the type in which it sums
  bool dense_;            // fused loops, no temporaries
  std::int64_t query_width_;
  std::int64_t key_width_;
  std::int64_t hidden_;  // bytes of a hidden state
  Tape tape_;
};

}  // namespace zerolock
