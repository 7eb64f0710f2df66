#pragma once
/// All stages of a model driven one after another in one thread: what the actors do, without actors.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensors/base/memory_account.hpp"
#include "tensors/training/calibration.hpp"
#include "tensors/training/chunk_backend.hpp"
#include "tests/tensors/model_support.hpp"

namespace zerolock::test {

/// One micro-batch before it enters the first stage.
struct MicroBatch {
  at::Tensor ids;  // int64 [rows]
  std::shared_ptr<const MicroBatchLayout> layout;
};

class SequentialStages {
 public:
  SequentialStages(const std::shared_ptr<const ModelFiles>& model, const std::vector<LayerRange>& partition,
                   const TrainingSettings& settings) {
    for (std::size_t k = 0; k < partition.size(); ++k) {
      accounts_.push_back(std::make_unique<MemoryAccount>());
      backends_.push_back(make_chunk_backend(model, StageIndex{k}, partition, settings, *accounts_.back()));
    }
  }

  /// Forward and backward of one micro-batch through all stages; each stage's report.
  std::vector<LossReport> train(const MicroBatch& batch, const BatchPosition& position) {
    std::vector<LossReport> reports;
    at::Tensor payload = batch.ids;
    hidden_.clear();
    for (const auto& backend : backends_) {
      payload = backend->begin({position, Incarnation{1}, batch.layout, payload});
      hidden_.push_back(payload);
      reports.push_back(backend->finish(position));
    }
    return reports;
  }

  /// All micro-batches of a window, then every stage's step. reports[micro-batch][stage].
  std::vector<std::vector<LossReport>> train_window(const std::vector<MicroBatch>& batches,
                                                    WindowIndex window) {
    std::vector<std::vector<LossReport>> reports;
    for (std::size_t i = 0; i < batches.size(); ++i) reports.push_back(train(batches[i], {window, i}));
    steps_.clear();
    for (const auto& backend : backends_) steps_.push_back(backend->step(window));
    return reports;
  }

  /// The calibration phase with these micro-batches; false if no stage needs it.
  bool calibrate(const std::vector<MicroBatch>& batches) {
    std::vector<StageBackend*> stages;
    for (const auto& backend : backends_) stages.push_back(backend.get());
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      entries.push_back({{WindowIndex{0}, i}, Incarnation{1}, batches[i].layout, batches[i].ids});
    }
    return zerolock::calibrate(stages, entries);
  }

  /// Every stage back to these LoRA weights, as if nothing had been trained.
  void start_from(const TensorMap& lora_weights) {
    StageState state;
    for (const auto& [name, tensor] : lora_weights) state.tensors["lora." + name] = tensor;
    for (const auto& backend : backends_) backend->restore(state);
  }

  /// The tensors of all stages' states whose names start so, without the start.
  [[nodiscard]] TensorMap tensors(const std::string& prefix) const {
    TensorMap found;
    for (const auto& backend : backends_) {
      for (const auto& [name, tensor] : backend->state().tensors) {
        if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
      }
    }
    return found;
  }

  [[nodiscard]] StageBackend& backend(std::size_t stage) { return *backends_[stage]; }
  [[nodiscard]] MemoryAccount& account(std::size_t stage) { return *accounts_[stage]; }
  /// Hidden states that the stages sent for the last micro-batch.
  [[nodiscard]] const std::vector<at::Tensor>& hidden() const { return hidden_; }
  [[nodiscard]] const std::vector<StepReport>& steps() const { return steps_; }

 private:
  std::vector<std::unique_ptr<MemoryAccount>> accounts_;
  std::vector<std::unique_ptr<StageBackend>> backends_;
  std::vector<at::Tensor> hidden_;
  std::vector<StepReport> steps_;
};

/// bounds = the last layer (exclusive) of each stage.
inline std::vector<LayerRange> partition_of(const std::vector<std::int64_t>& bounds) {
  std::vector<LayerRange> partition;
  std::int64_t first = 0;
  for (const std::int64_t last : bounds) {
    partition.push_back({first, last});
    first = last;
  }
  return partition;
}

/// Settings under which a step of size 1 moves the weights by exactly the window's mean gradient.
inline TrainingSettings gradient_settings(TrainingSettings settings) {
  settings.optimizer = {};
  settings.optimizer.kind = OptimizerKind::sgd;
  settings.optimizer.learning_rate = 1.0;
  settings.optimizer.weight_decay = 0.0;
  return settings;
}

/// Gradients of one window from the given weights.
inline TensorMap window_gradients(const std::shared_ptr<const ModelFiles>& model,
                                  const std::vector<LayerRange>& partition, const TrainingSettings& settings,
                                  const TensorMap& weights, const std::vector<MicroBatch>& batches) {
  SequentialStages stages(model, partition, gradient_settings(settings));
  stages.start_from(weights);
  stages.train_window(batches, WindowIndex{1});
  TensorMap gradients;
  for (const auto& [name, moved] : stages.tensors("lora.")) {
    gradients[name] = weights.at(name).to(moved.scalar_type()).sub(moved);
  }
  return gradients;
}

/// The micro-batches that the ZeroLock and back-propagation references were made from; window w is 4w..4w+3.
inline std::vector<MicroBatch> reference_batches() {
  const TensorMap data = read_tensors(reference_file("CD_data.safetensors"));
  std::vector<MicroBatch> batches;
  for (int i = 0; i < 12; ++i) {
    const std::string prefix = "mb" + std::to_string(i) + ".";
    const Packed packed = pack(data.at(prefix + "input_ids"), data.at(prefix + "attention_mask"));
    batches.push_back({packed.ids, layout_of(packed, data.at(prefix + "labels"))});
  }
  return batches;
}

inline std::vector<MicroBatch> window_of(const std::vector<MicroBatch>& batches, std::size_t window) {
  const auto begin = batches.begin() + static_cast<std::ptrdiff_t>(4 * window);
  return {begin, begin + 4};
}

}  // namespace zerolock::test
