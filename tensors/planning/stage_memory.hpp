#pragma once
/// How much memory a stage needs at its peak, component by component, without opening it.

#include <cstdint>

#include "tensors/planning/memory_walk.hpp"
#include "tensors/planning/model_sizes.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// Hidden states that stand between stages.
struct HeldEntries {
  std::int64_t outputs = 1;  // a stage's own, until every later stage's checkpoint covers them
  std::int64_t inputs = 0;   // those it received and nobody else holds: from another process, or the source
};

/// What a run asks of a stage, beside its numbers.
struct StageLoad {
  MicroBatchShape micro_batch;  // the largest
  HeldEntries held;
  /// Stages are calibrated first: supervised rows that are kept for it, the largest micro-batch, and what
  /// stands between the stages meanwhile. 0 rows: they are not.
  std::int64_t calibration_rows = 0;
  MicroBatchShape calibration_batch;
  HeldEntries held_in_calibration;
};

/// The peaks that a stage's MemoryAccount would show, the copy of its state that a checkpoint holds included.
/// The fp32 and bf16 compute types. Throws InputError for settings that do not fit model or each other.
PlannedMemory stage_memory(const ModelSizes& model, const TrainingSettings& settings,
                           const PlannedStage& stage, const StageLoad& load);

/// How a run lets entries stand between its stages.
struct RunBuffers {
  std::int64_t accumulate = 4;         // micro-batches of a window
  std::int64_t checkpoint_every = 1;   // windows
  std::int64_t depth = 4;              // micro-batches on their way across a boundary
  std::int64_t bytes_max = 1LL << 30;  // of a buffer
  std::int64_t calibration_micro_batches = 0;
  bool apart = false;          // stages are in processes of their own
  bool source_embeds = false;  // hidden states cross boundary 0
};

/// The most that can stand there at a time, by the rules of buffers and scheduler.
HeldEntries entries_held(const RunBuffers& run, const PlannedStage& stage, std::int64_t entry_bytes);
HeldEntries entries_held_in_calibration(const RunBuffers& run, const PlannedStage& stage,
                                        std::int64_t entry_bytes);

}  // namespace zerolock
