#include "tensors/planning/chunk_memory.hpp"

#include <algorithm>

#include "tensors/model/attention.hpp"

namespace zerolock {

ChunkMemory::ChunkMemory(const ModelConfig& config, const TrainingSettings& settings, std::int64_t layers,
                         const MicroBatchShape& shape, bool adapted, MemoryWalk& walk)
    : config_(config),
      settings_(settings),
      layers_(layers),
      shape_(shape),
      adapted_(adapted),
      walk_(walk),
      element_(static_cast<std::int64_t>(c10::elementSize(scalar_type(settings.compute)))),
      wide_(settings.compute == ComputeType::fp64 ? 8 : 4),
      dense_(settings.compute == ComputeType::fp32),
      query_width_(config.heads * config.head_dimension),
      key_width_(config.key_value_heads * config.head_dimension),
      hidden_(matrix(shape.rows, config.width)) {
  tape_.attention = matrix(shape.rows, 2 * query_width_ + 2 * key_width_) + shape.rows * config.heads * wide_;
  tape_.feed_forward = matrix(shape.rows, 2 * config.feed_forward_width);
  tape_.middle = hidden_;
  tape_.rest = 2 * shape.rows * wide_;
  for (std::size_t p = 0; p < projection_count; ++p) {
    if (adapts(static_cast<Projection>(p))) tape_.rest += matrix(shape.rows, settings.lora.rank);
  }
}

bool ChunkMemory::adapts(Projection p) const {
  const std::vector<std::string>& targets = settings_.lora.targets;
  return adapted_ && std::find(targets.begin(), targets.end(), target_name(p)) != targets.end();
}

std::int64_t ChunkMemory::rotary_bytes() const {
  constexpr std::int64_t positions_min = 64;
  return std::max(positions_min, shape_.longest) * config_.head_dimension * element_;
}

// -- What single operations take for themselves, where no fused loop does them

std::int64_t ChunkMemory::norm_scratch(std::int64_t rows) const {
  return dense_ ? 0 : 2 * rows * config_.width * wide_;
}

std::int64_t ChunkMemory::norm_backward_scratch(std::int64_t rows) const {
  return dense_ ? 0 : 4 * rows * config_.width * wide_ + matrix(rows, config_.width);
}

/// Scores of one head, or of all heads in two types and once more for their softmax.
std::int64_t ChunkMemory::attention_scratch() const {
  if (dense_) return std::min(shape_.longest, attention_block_rows) * shape_.longest * wide_;
  const std::int64_t scores = shape_.longest * shape_.longest;
  return config_.heads * scores * (2 * wide_ + element_) +
         matrix(shape_.longest, query_width_ + 2 * key_width_);
}

std::int64_t ChunkMemory::attention_backward_scratch() const {
  const std::int64_t block = std::min(shape_.longest, attention_block_rows);
  if (dense_) return (2 * block * shape_.longest + block) * wide_;
  const std::int64_t scores = shape_.longest * shape_.longest;
  return config_.heads * scores * (3 * wide_ + element_) +
         matrix(shape_.longest, 3 * query_width_ + 2 * key_width_);
}

// -- Forward

/// record() of decoder_layer.cpp: leaves a whole tape.
void ChunkMemory::record() {
  const std::int64_t normed = hidden_;
  take(shape_.rows * wide_);  // factors; LoRA projections come with the products below
  touch(normed + norm_scratch(shape_.rows));
  take(normed);
  take(matrix(shape_.rows, query_width_ + 2 * key_width_));
  give(normed);
  take(matrix(shape_.rows, query_width_) + shape_.rows * config_.heads * wide_);
  touch(attention_scratch());
  take(tape_.middle);
  take(tape_.rest - shape_.rows * wide_);
  touch(normed + norm_scratch(shape_.rows));
  take(normed);
  take(tape_.feed_forward);
  give(normed);
}

void ChunkMemory::layer_forward(bool keeps_tape, MemoryComponent output) {
  const std::int64_t product = tape_.feed_forward / 2;
  const std::int64_t down_projected = adapts(Projection::down) ? matrix(shape_.rows, settings_.lora.rank) : 0;
  record();
  give(down_projected);  // made last, and charged to where the output is
  if (!keeps_tape) give(tape_.attention);
  take(product);
  if (!keeps_tape) give(tape_.feed_forward);
  walk_.take(output, hidden_ + down_projected);
  give(product);
  if (!keeps_tape) {
    give(tape_.middle + tape_.rest - down_projected);
    walk_.give(output, down_projected);
  }
}

void ChunkMemory::forward(bool tape) {
  const bool keeps_tapes = tape && !settings_.recompute;
  for (std::int64_t l = 0; l < layers_; ++l) {
    const bool last = l + 1 == layers_;
    layer_forward(keeps_tapes, last ? MemoryComponent::buffers : MemoryComponent::activations);
    // A layer's input goes when its output is there, unless something is kept; the first is the caller's.
    if (!tape && l > 0) give(hidden_);
  }
}

// -- Backward

/// feed_forward_backward: for `rows` rows, with a tape of `tape_rows`. Gives back gate, up and middle.
void ChunkMemory::feed_forward_backward(std::int64_t rows, std::int64_t tape_rows) {
  const std::int64_t product = matrix(rows, config_.feed_forward_width);
  const std::int64_t hidden = matrix(rows, config_.width);
  if (adapts(Projection::down)) take(product);
  take(product);  // its gradient
  if (adapts(Projection::down)) give(product);
  if (!dense_) touch(4 * product);  // swiglu_backward
  give(product);
  const bool normed = adapts(Projection::gate) || adapts(Projection::up);
  if (normed) {
    if (!dense_) touch(2 * rows * config_.width * wide_ + hidden);
    take(hidden);
  }
  take(hidden);  // the norm's gradient
  give(matrix(tape_rows, 2 * config_.feed_forward_width));
  if (normed) give(hidden);
  touch(norm_backward_scratch(rows));
  give(hidden);
  give(matrix(tape_rows, config_.width));
}

/// rotated_attention_backward: from the tape's attention to the gradients of query, key and value.
void ChunkMemory::attention_backward() {
  take(matrix(shape_.rows, query_width_ + 2 * key_width_));
  touch(attention_backward_scratch());
  give(tape_.attention);
}

/// input_backward; gives back the gradients of query, key and value.
void ChunkMemory::input_backward(bool need_input_gradient) {
  const bool normed = adapts(Projection::query) || adapts(Projection::key) || adapts(Projection::value);
  if (normed) {
    if (!dense_) touch(2 * shape_.rows * config_.width * wide_ + hidden_);
    take(hidden_);
  }
  if (need_input_gradient) {
    take(hidden_);
    touch(norm_backward_scratch(shape_.rows));
    give(hidden_);
  }
  if (normed) give(hidden_);
  give(matrix(shape_.rows, query_width_ + 2 * key_width_));
}

/// The gradient of the output is there already, and becomes that of the input.
void ChunkMemory::layer_backward(bool need_input_gradient) {
  feed_forward_backward(shape_.rows, shape_.rows);
  const std::int64_t output_gradient = matrix(shape_.rows, query_width_);
  take(output_gradient);
  attention_backward();
  input_backward(need_input_gradient);
  give(output_gradient);
  give(tape_.rest);
}

/// Leaves the gradient of the input, if it is needed.
void ChunkMemory::layer_backward_from_rows(std::int64_t rows, bool need_input_gradient) {
  const std::int64_t some_middle = matrix(rows, config_.width);
  const std::int64_t some_feed_forward = matrix(rows, 2 * config_.feed_forward_width);
  const std::int64_t some_output = matrix(rows, query_width_);
  take(some_middle);
  give(tape_.middle);
  take(some_feed_forward);
  give(tape_.feed_forward);
  take(some_output);
  feed_forward_backward(rows, rows);
  take(some_output);  // its gradient
  const std::int64_t spread = matrix(shape_.rows, query_width_);
  take(spread);
  attention_backward();
  give(spread);
  if (need_input_gradient) take(hidden_);  // the rows' gradient, spread as well
  input_backward(need_input_gradient);
  give(2 * some_output);
  give(tape_.rest);
}

void ChunkMemory::backward(std::int64_t gradient_rows) {
  const std::int64_t down_projected = adapts(Projection::down) ? matrix(shape_.rows, settings_.lora.rank) : 0;
  // The last layer's went to "buffers".
  if (!settings_.recompute) {
    take(down_projected);
    walk_.give(MemoryComponent::buffers, down_projected);
  }
  for (std::int64_t l = layers_; l-- > 0;) {
    if (settings_.recompute) {
      record();
      if (adapts(Projection::down)) touch(tape_.feed_forward / 2);
    }
    if (l + 1 == layers_) {
      layer_backward_from_rows(gradient_rows, l > 0);
    } else {
      layer_backward(l > 0);
    }
    if (l > 0) give(hidden_);  // its input; the first one's is the caller's
  }
  if (layers_ > 1) give(hidden_);  // the gradient that went from layer to layer
}

}  // namespace zerolock
