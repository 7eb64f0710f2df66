#pragma once
/// Small stages of a large model, run to learn how long large ones take.

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// The first layers of a model, as a model of their own.
class ShortModel final : public ModelFiles {
 public:
  /// `layers`: at most the model's.
  ShortModel(std::shared_ptr<const ModelFiles> whole, std::int64_t layers);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const std::filesystem::path& path() const override { return whole_->path(); }
  [[nodiscard]] StoredTensor tensor(const std::string& name) const override { return whole_->tensor(name); }
  [[nodiscard]] bool contains(const std::string& name) const override { return whole_->contains(name); }
  [[nodiscard]] std::vector<std::string> names() const override { return whole_->names(); }
  [[nodiscard]] std::shared_ptr<const GgufFile> gguf() const override { return whole_->gguf(); }
  [[nodiscard]] std::string content_hash() const override { return whole_->content_hash(); }

 private:
  std::shared_ptr<const ModelFiles> whole_;
  ModelConfig config_;
};

/// The shortest run that has a stage of one kind: the stage's place in it, and everybody's layers.
struct ShortRun {
  StageIndex stage;
  std::vector<LayerRange> partition;
  TrainingSettings settings;
};

/// `layers`: of the stage. Stages that only stand before or behind it have one layer and are not trained.
ShortRun short_run(bool first, bool last, bool trained, std::int64_t layers, TrainingSettings settings);

/// Random hidden states [rows, width] in the compute type.
at::Tensor random_hidden(std::int64_t rows, const ModelConfig& config, const TrainingSettings& settings);

}  // namespace zerolock
