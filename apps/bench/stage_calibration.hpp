#pragma once
/// Simulated stages that take as long as real ones: what the phases of a model's stages cost on this machine
/// under each schedule, and how its layers are cut.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/core/training_schedule.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/planning/phase_times.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

class StageCalibration {
 public:
  /// For `schedules`. `settings`: of a run of zerolock's own. `micro_batches` and `runs` as PhaseTimes takes
  /// them; `accumulate` micro-batches make a window.
  StageCalibration(std::shared_ptr<const ModelFiles> model, const std::vector<TrainingSchedule>& schedules,
                   const TrainingSettings& settings, std::vector<Entry> micro_batches,
                   std::uint64_t accumulate, int runs);

  /// Layers cut evenly. For more stages than the model has layers, one layer each of a model that is deeper.
  [[nodiscard]] std::vector<LayerRange> even_partition(std::uint64_t stages) const;
  /// The cut whose slowest stage is fastest under that schedule; as above for too many stages.
  std::vector<LayerRange> tuned_partition(TrainingSchedule schedule, std::uint64_t stages);

  /// Of each stage. Measures kinds of stages that were not asked for before.
  std::vector<PhaseSeconds> seconds(TrainingSchedule schedule, const std::vector<LayerRange>& partition);

 private:
  PhaseSeconds of(TrainingSchedule schedule, std::uint64_t stage, std::uint64_t stages,
                  const LayerRange& layers);

  std::int64_t model_layers_;
  std::uint64_t accumulate_;
  PhaseTimes times_;
};

/// "10,10,10", or "64 x 1" where there are many of the same.
std::string partition_text(const std::vector<LayerRange>& partition);

}  // namespace zerolock
