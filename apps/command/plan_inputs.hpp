#pragma once
/// What `zerolock plan` knows of a run before it is planned.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/command/train_options.hpp"
#include "apps/command/training_inputs.hpp"
#include "tensors/base/entry.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/planning/stage_memory.hpp"
#include "tensors/planning/stage_operations.hpp"

namespace zerolock {

struct PlanInputs {
  std::shared_ptr<const ModelFiles> model;
  ModelSizes sizes;
  TrainingSettings settings;
  std::uint64_t stages = 1;
  MicroBatchShape largest;  // the larger of each number over all micro-batches
  MicroBatchShape mean;
  RunBuffers buffers;
  std::int64_t calibration_rows = 0;  // 0: stages are not calibrated
  MicroBatchShape calibration_batch;  // the largest
  std::vector<Entry> samples;         // of boundary 0, for measuring
  std::vector<std::string> notes;

  /// Of a micro-batch's hidden state.
  [[nodiscard]] std::int64_t entry_bytes(const MicroBatchShape& shape) const;
  [[nodiscard]] PlannedStage stage(std::uint64_t stage, const LayerRange& layers) const;
  [[nodiscard]] PlannedMemory memory(const PlannedStage& stage) const;
  [[nodiscard]] StageOperations operations(const PlannedStage& stage) const;
};

/// Opens the model and, if the options name any, the rows; lets the recipe choose. Without rows it assumes
/// full sequences of --seq tokens with one supervised row each, and says so in the notes. `stages`: how many
/// the run has; `apart`: each in a process of its own. Throws InputError for the first thing that does not
/// fit.
PlanInputs open_plan_inputs(TrainOptions& options, std::uint64_t stages, bool apart,
                            const std::function<bool(const std::string& flag)>& by_hand);
/// The same of what is open already, and options that the recipe has completed.
PlanInputs make_plan_inputs(const TrainOptions& options, const TrainingSources& sources, std::uint64_t stages,
                            bool apart);

}  // namespace zerolock
