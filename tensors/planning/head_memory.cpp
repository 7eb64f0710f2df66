#include "tensors/planning/head_memory.hpp"

#include <algorithm>
#include <string>

#include "tensors/base/error.hpp"
#include "tensors/training/readout_loss.hpp"

namespace zerolock {
namespace {

constexpr std::int64_t double_bytes = 8;
constexpr std::int64_t float_bytes = 4;
constexpr auto loss_component = MemoryComponent::loss;

std::int64_t outputs_of(const HeadSettings& head, const ModelConfig& config) {
  return head.restricted_tokens.empty() ? config.vocabulary
                                        : static_cast<std::int64_t>(head.restricted_tokens.size());
}

}  // namespace

HeadMemory::HeadMemory(const HeadSettings& head, const ModelSizes& model, const TrainingSettings& settings)
    : head_(head),
      model_(model),
      settings_(settings),
      element_(static_cast<std::int64_t>(c10::elementSize(scalar_type(settings.compute)))),
      wide_(static_cast<std::int64_t>(c10::elementSize(wide_type(scalar_type(settings.compute))))),
      width_(model.config.width),
      outputs_(outputs_of(head, model.config)) {
  head.check();
  const std::int64_t rank_max = std::min(width_, outputs_);
  if (head.kind == HeadKind::bottleneck && head.bottleneck_rank > rank_max) {
    throw InputError("rank of a bottleneck head", std::to_string(head.bottleneck_rank) +
                                                      " asked for; width and outputs allow 1 to " +
                                                      std::to_string(rank_max));
  }
}

std::int64_t HeadMemory::factors_bytes() const {
  return head_.bottleneck_rank * (width_ + outputs_) * wide_;
}

std::int64_t HeadMemory::bytes() const {
  const std::int64_t rows = head_.restricted_tokens.empty() ? held_bytes(model_.head, settings_.base)
                                                            : outputs_ * width_ * element_;
  switch (head_.kind) {
    case HeadKind::fixed:
    case HeadKind::restricted:
      return rows + width_ * element_;
    case HeadKind::calibrated:
      return rows + width_ * wide_ + fitted_bytes();
    case HeadKind::adapter:
      return rows + width_ * wide_ + 2 * trainable_bytes();
    case HeadKind::bottleneck:
      break;
  }
  return width_ * wide_ + fitted_bytes() + 2 * trainable_bytes();
}

std::int64_t HeadMemory::trainable_bytes() const {
  if (head_.kind == HeadKind::adapter) return 2 * head_.adapter_width * width_ * wide_;
  return head_.kind == HeadKind::bottleneck && head_.bottleneck_trained ? factors_bytes() : 0;
}

std::int64_t HeadMemory::fitted_bytes() const {
  if (head_.kind == HeadKind::calibrated) return (width_ + 1) * width_ * wide_;
  return head_.kind == HeadKind::bottleneck && !head_.bottleneck_trained ? factors_bytes() : 0;
}

// -- Making

void HeadMemory::make(MemoryWalk& walk) const {
  const bool frozen = head_.kind == HeadKind::fixed || head_.kind == HeadKind::restricted;
  walk.take(MemoryComponent::weights, width_ * (frozen ? element_ : wide_));  // the norm
  if (head_.kind == HeadKind::bottleneck) make_factors(walk);
  if (head_.kind == HeadKind::calibrated) walk.take(MemoryComponent::weights, fitted_bytes());
  if (head_.kind == HeadKind::adapter) walk.take(MemoryComponent::optimizer, trainable_bytes());
  walk.take(MemoryComponent::optimizer, trainable_bytes());  // gradient sums
}

/// truncated_factors: the eigenvectors of W^T W in fp64, then both factors.
void HeadMemory::make_factors(MemoryWalk& walk) const {
  const MemoryComponent component =
      head_.bottleneck_trained ? MemoryComponent::optimizer : MemoryComponent::weights;
  const std::int64_t square = width_ * width_ * double_bytes;
  constexpr std::int64_t tile_rows = 512;
  const bool expands = head_.restricted_tokens.empty() && !multiplied_in_place(model_.head, settings_);
  const std::int64_t tile = expands ? std::min(tile_rows, outputs_) * width_ * float_bytes : 0;
  walk.take(MemoryComponent::weights, tile);
  walk.take(component, square);           // W^T W
  walk.touch(component, square / 2 * 3);  // one tile's part, in both types
  walk.touch(component, 3 * square);      // eigenvectors and LAPACK's work space
  walk.take(component, square);           // eigenvectors
  const std::int64_t columns = width_ * head_.bottleneck_rank * double_bytes;
  walk.touch(component, 3 * columns);
  walk.take(component, columns);
  walk.take(component, factors_bytes());
  walk.touch(component, 2 * columns);
  walk.give(component, columns + 2 * square);
  walk.give(MemoryComponent::weights, tile);
}

// -- The loss

HeadMemory::Features HeadMemory::features(std::int64_t rows) const {
  const bool narrow = element_ != wide_;
  const std::int64_t compute = rows * width_ * element_;
  const std::int64_t wide = rows * width_ * wide_;
  const std::int64_t factors = rows * wide_;
  Features made{factors, compute, 0};
  switch (head_.kind) {
    case HeadKind::fixed:
    case HeadKind::restricted:
      made.scratch = narrow ? 2 * wide : 0;
      break;
    case HeadKind::calibrated:
      made.tape += wide;
      made.scratch = narrow ? wide : 0;
      break;
    case HeadKind::adapter: {
      const std::int64_t inner = rows * head_.adapter_width * wide_;
      made.tape += wide + inner + (narrow ? wide : 0);
      made.scratch = inner;
      break;
    }
    case HeadKind::bottleneck:
      made.tape += wide + (narrow ? wide : 0);
      made.result = rows * head_.bottleneck_rank * wide_;
      break;
  }
  return made;
}

/// What backward() needs at its highest, the gradient that it gives included.
std::int64_t HeadMemory::backward_scratch(std::int64_t rows) const {
  const bool narrow = element_ != wide_;
  const std::int64_t compute = rows * width_ * element_;
  const std::int64_t wide = rows * width_ * wide_;
  switch (head_.kind) {
    case HeadKind::fixed:
    case HeadKind::restricted:
      break;
    case HeadKind::calibrated:
      return 2 * wide + (narrow ? wide + compute : 0);
    case HeadKind::adapter: {
      const std::int64_t inner = rows * head_.adapter_width * wide_;
      return std::max(6 * inner, 2 * inner + 2 * wide) + (narrow ? wide : 0);
    }
    case HeadKind::bottleneck:
      return 2 * wide + (narrow ? compute : 0);
  }
  return compute + (narrow ? 4 * wide + compute : 0);
}

/// Tensors of a block's logits, in the wide type, that the loss makes next to the logits themselves: up to
/// five stand when a sum in fp64 takes its product and a copy of twice the size.
std::int64_t HeadMemory::block_copies(bool compares, bool dense) const {
  if (compares && settings_.loss.form != LossForm::weighted_terms) return 7;
  if (dense) return 0;
  if (!compares) return 3;
  return settings_.loss.direction == KlDirection::forward ? 8 : 9;
}

/// Bytes of an element of a head's features and logits.
std::int64_t HeadMemory::logit_bytes(const HeadSettings& head) const {
  return head.kind == HeadKind::bottleneck ? wide_ : element_;
}

void HeadMemory::loss(std::int64_t rows, const std::optional<PreviousHead>& previous,
                      MemoryWalk& walk) const {
  const Features own = features(rows);
  walk.take(loss_component, own.tape + own.result);
  walk.touch(loss_component, own.scratch);
  std::int64_t held = own.tape + own.result;
  const auto hold = [&](std::int64_t bytes) {
    walk.take(loss_component, bytes);
    held += bytes;
  };
  std::int64_t bytes_per_output = logit_bytes(head_);
  bool dense = bytes_per_output == float_bytes;
  if (previous) {
    const Features other = HeadMemory(previous->settings, model_, settings_).features(rows);
    walk.touch(loss_component, other.tape + other.scratch + other.result);
    hold(other.result);
    bytes_per_output += logit_bytes(previous->settings);
    dense = dense && logit_bytes(previous->settings) == float_bytes;
  }
  hold(own.result);  // its gradient
  const bool has_target = previous && settings_.loss.form != LossForm::weighted_terms;
  const std::int64_t step = readout_rows_per_block(rows, outputs_, logit_bytes(head_),
                                                   has_target ? 8
                                                   : previous ? 2
                                                              : 1,
                                                   ReadoutLossOptions{}.block_bytes_max);
  hold(step * outputs_ * bytes_per_output);
  walk.touch(loss_component, block_copies(previous.has_value(), dense) * step * outputs_ * wide_);
  walk.touch(loss_component, backward_scratch(rows));
  walk.take(loss_component, rows * width_ * element_);
  walk.give(loss_component, held);
}

}  // namespace zerolock
