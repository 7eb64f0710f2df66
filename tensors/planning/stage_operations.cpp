#include "tensors/planning/stage_operations.hpp"

#include <algorithm>
#include <optional>

#include "tensors/training/stage_readout.hpp"

namespace zerolock {
namespace {

constexpr std::array<Projection, 3> attention_inputs = {Projection::query, Projection::key,
                                                        Projection::value};
constexpr std::array<Projection, 4> row_wise = {Projection::output, Projection::gate, Projection::up,
                                                Projection::down};

double outputs_of(const HeadSettings& head, const ModelConfig& config) {
  return static_cast<double>(head.restricted_tokens.empty()
                                 ? config.vocabulary
                                 : static_cast<std::int64_t>(head.restricted_tokens.size()));
}

/// From a hidden row to its logits.
double readout_forward_per_row(const HeadSettings& head, const ModelConfig& config) {
  const auto width = static_cast<double>(config.width);
  const double outputs = outputs_of(head, config);
  switch (head.kind) {
    case HeadKind::fixed:
    case HeadKind::restricted:
      break;
    case HeadKind::calibrated:
      return 2 * width * (width + outputs);
    case HeadKind::adapter:
      return 2 * width * (2 * static_cast<double>(head.adapter_width) + outputs);
    case HeadKind::bottleneck:
      return 2 * static_cast<double>(head.bottleneck_rank) * (width + outputs);
  }
  return 2 * width * outputs;
}

/// Products of one layer.
class LayerOperations {
 public:
  LayerOperations(const LayerSizes& sizes, const ModelConfig& config, const LoraSettings& lora,
                  const MicroBatchShape& shape)
      : sizes_(sizes),
        lora_(lora),
        rows_(static_cast<double>(shape.rows)),
        attention_(2.0 * static_cast<double>(config.heads * config.head_dimension * shape.scores)) {}

  [[nodiscard]] double forward(bool adapted) const {
    double sum = 2 * attention_;  // scores, and the values that they weigh
    for (std::size_t p = 0; p < projection_count; ++p) {
      sum += frozen(static_cast<Projection>(p)) * rows_;
      if (adapted) sum += pair(static_cast<Projection>(p)) * rows_;
    }
    return sum;
  }

  /// The forward again, without the last frozen product.
  [[nodiscard]] double recording() const {
    const MatrixSize& down = sizes_[Projection::down];
    double sum = forward(true) - (frozen(Projection::down) + pair(Projection::down)) * rows_;
    if (adapts(Projection::down)) sum += 2 * rank() * static_cast<double>(down.columns) * rows_;
    return sum;
  }

  /// `gradient_rows`: where the output's gradient is not zero.
  [[nodiscard]] double backward(double gradient_rows, bool need_input_gradient) const {
    double sum = 5 * attention_;
    for (const Projection p : row_wise) sum += (frozen(p) + 2 * pair(p)) * gradient_rows;
    for (const Projection p : attention_inputs) {
      sum += (need_input_gradient ? frozen(p) + 2 * pair(p) : pair_parameters(p)) * rows_;
    }
    return sum;
  }

 private:
  [[nodiscard]] double rank() const { return static_cast<double>(lora_.rank); }
  [[nodiscard]] bool adapts(Projection p) const {
    return std::find(lora_.targets.begin(), lora_.targets.end(), target_name(p)) != lora_.targets.end();
  }
  /// Of one row through the frozen matrix, either way.
  [[nodiscard]] double frozen(Projection p) const { return 2 * static_cast<double>(sizes_[p].elements()); }
  /// Of one row through the LoRA pair; its backward makes twice as many, half of them for the gradients.
  [[nodiscard]] double pair(Projection p) const {
    return adapts(p) ? 2 * rank() * static_cast<double>(sizes_[p].rows + sizes_[p].columns) : 0;
  }
  /// Both gradients of the pair without its input's: one product less, of [rows, rank] and A.
  [[nodiscard]] double pair_parameters(Projection p) const {
    return adapts(p) ? 2 * pair(p) - 2 * rank() * static_cast<double>(sizes_[p].columns) : 0;
  }

  const LayerSizes& sizes_;
  const LoraSettings& lora_;
  double rows_;
  double attention_;  // one product of all heads' scores
};

}  // namespace

double head_operations_per_row(const HeadSettings& head, const ModelConfig& config) {
  const double forward = readout_forward_per_row(head, config);
  const auto width = static_cast<double>(config.width);
  if (head.kind == HeadKind::adapter) {
    // Two matrices, whose gradients are made as well.
    return 2 * forward + 4 * width * static_cast<double>(head.adapter_width);
  }
  if (head.kind == HeadKind::bottleneck && head.bottleneck_trained) return 3 * forward;
  return 2 * forward;
}

StageOperations stage_operations(const ModelSizes& model, const TrainingSettings& settings,
                                 const PlannedStage& stage, const MicroBatchShape& shape) {
  const bool learns = settings.trains(stage.stage) && shape.supervised_rows > 0;
  StageOperations operations;
  for (std::int64_t l = stage.layers.first; l < stage.layers.last; ++l) {
    const LayerOperations layer(model.layers[static_cast<std::size_t>(l)], model.config, settings.lora,
                                shape);
    operations.forward += layer.forward(settings.trains(stage.stage));
    if (!learns) continue;
    if (settings.recompute) operations.backward += layer.recording();
    const bool last = l + 1 == stage.layers.last;
    operations.backward += layer.backward(static_cast<double>(last ? shape.supervised_rows : shape.rows),
                                          l > stage.layers.first);
  }
  if (!learns) return operations;
  const HeadSettings& own = settings.loss.head_of(stage.stage, stage.stages);
  double per_row = head_operations_per_row(own, model.config);
  if (const auto previous = previous_head(settings, stage.stage, stage.stages)) {
    per_row += readout_forward_per_row(previous->settings, model.config);
  }
  operations.readout = per_row * static_cast<double>(shape.supervised_rows);
  return operations;
}

}  // namespace zerolock
