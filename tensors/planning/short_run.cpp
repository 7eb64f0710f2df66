#include "tensors/planning/short_run.hpp"

#include <set>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {

ShortModel::ShortModel(std::shared_ptr<const ModelFiles> whole, std::int64_t layers)
    : whole_(std::move(whole)), config_(whole_->config()) {
  ZEROLOCK_INVARIANT(layers <= config_.layers, "a short model is not longer");
  config_.layers = layers;
}

ShortRun short_run(bool first, bool last, bool trained, std::int64_t layers, TrainingSettings settings) {
  ShortRun run;
  std::int64_t next = 0;
  if (!first) run.partition.push_back({0, next = 1});
  run.stage = StageIndex{run.partition.size()};
  run.partition.push_back({next, next + layers});
  next += layers;
  if (!last) run.partition.push_back({next, next + 1});
  const std::uint64_t other = run.stage.value == 0 ? run.partition.size() - 1 : 0;
  settings.trained_stages = std::set<std::uint64_t>{trained ? run.stage.value : other};
  run.settings = std::move(settings);
  return run;
}

at::Tensor random_hidden(std::int64_t rows, const ModelConfig& config, const TrainingSettings& settings) {
  return at::randn({rows, config.width}, at::kFloat).to(scalar_type(settings.compute));
}

}  // namespace zerolock
