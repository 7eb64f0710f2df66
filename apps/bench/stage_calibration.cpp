#include "apps/bench/stage_calibration.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "apps/bench/compared_schedules.hpp"
#include "tensors/planning/partitioner.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

namespace {

std::map<GradientReach, TrainingSettings> settings_of(const std::vector<TrainingSchedule>& schedules,
                                                      const TrainingSettings& settings) {
  std::map<GradientReach, TrainingSettings> all;
  for (const TrainingSchedule schedule : schedules) {
    all.emplace(gradient_reach(schedule), settings_under(schedule, settings));
  }
  return all;
}

}  // namespace

StageCalibration::StageCalibration(std::shared_ptr<const ModelFiles> model,
                                   const std::vector<TrainingSchedule>& schedules,
                                   const TrainingSettings& settings, std::vector<Entry> micro_batches,
                                   std::uint64_t accumulate, int runs)
    : model_layers_(model->config().layers),
      accumulate_(accumulate),
      times_(std::move(model), settings_of(schedules, settings), std::move(micro_batches), runs) {}

std::vector<LayerRange> StageCalibration::even_partition(std::uint64_t stages) const {
  const auto count = static_cast<std::int64_t>(stages);
  return equal_partition(std::max(model_layers_, count), count);
}

std::vector<LayerRange> StageCalibration::tuned_partition(TrainingSchedule schedule, std::uint64_t stages) {
  if (static_cast<std::int64_t>(stages) >= model_layers_) return even_partition(stages);
  PartitionTask task;
  task.layers = model_layers_;
  task.stages = stages;
  PlanningExecutor machine;
  machine.name = "simulated";
  machine.stages_at_once = stages;
  task.executors = {machine};
  // At one operation a second, operations are seconds.
  task.cost = [&](StageIndex stage, const LayerRange& layers) {
    return StageCost{of(schedule, stage.value, stages, layers).of_micro_batch(accumulate_), 0};
  };
  std::vector<LayerRange> partition;
  for (const PlannedPlace& place : best_plan(task).stages) partition.push_back(place.layers);
  return partition;
}

std::vector<PhaseSeconds> StageCalibration::seconds(TrainingSchedule schedule,
                                                    const std::vector<LayerRange>& partition) {
  std::vector<PhaseSeconds> all;
  for (std::uint64_t stage = 0; stage < partition.size(); ++stage) {
    all.push_back(of(schedule, stage, partition.size(), partition[stage]));
  }
  return all;
}

PhaseSeconds StageCalibration::of(TrainingSchedule schedule, std::uint64_t stage, std::uint64_t stages,
                                  const LayerRange& layers) {
  return times_.of({StageIndex{stage}, stages, layers}, gradient_reach(schedule));
}

std::string partition_text(const std::vector<LayerRange>& partition) {
  constexpr std::size_t listed_max = 8;
  const auto count = [](const LayerRange& range) { return std::to_string(range.count()); };
  const bool equal = std::all_of(partition.begin(), partition.end(), [&](const LayerRange& range) {
    return range.count() == partition.front().count();
  });
  if (equal && partition.size() > listed_max) {
    return std::to_string(partition.size()) + " x " + count(partition.front());
  }
  std::string text;
  for (const LayerRange& range : partition) text += (text.empty() ? "" : ",") + count(range);
  return text;
}

}  // namespace zerolock
