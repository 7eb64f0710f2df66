#pragma once
/// The actor that keeps one stage alive: buffers, keeper and worker, in this order, each depending on those
/// before it.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "actors/core/compute_deadline.hpp"
#include "actors/core/fault_point.hpp"
#include "actors/core/training_schedule.hpp"
#include "actors/core/window_order.hpp"
#include "actors/protocol.hpp"
#include "supervision/restart_policy.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// What all stages of a run share. Immutable.
struct StageCommons {
  std::uint64_t stages = 1;
  WindowIndex first_window{1};
  bool calibrates = false;  // window 0 is worked off first; first_window is 1
  TrainingSchedule schedule = TrainingSchedule::zerolock;
  CheckpointSchedule checkpoints;
  MicroBatchCount micro_batches;
  std::uint64_t depth = 4;
  std::size_t buffer_bytes_max = 0;
  std::uint64_t replay_batch = 1;  // of every life of a worker but the run's first
  std::filesystem::path checkpoint_root;
  RestartIntensity intensity;
  bool own_threads = true;  // workers and keepers; false for tests that step through messages
  std::chrono::steady_clock::time_point run_start;
  FaultHook fault;
  ComputeLimits compute_limits;
  /// Set when a worker's thread hangs: it will not end, so neither will its actor system. Not null.
  std::shared_ptr<std::atomic<bool>> hangs = std::make_shared<std::atomic<bool>>(false);
  SchedulerActor scheduler;
  TargetsHolderActor targets;
  RunRecorderActor recorder;
  /// Hears what stands in the buffers, at most once in deadlines.queues_interval for each stage, when it has
  /// changed; may be called by any thread. Empty: nobody wants to know.
  std::function<void(const StageQueues&)> report_queues;
};

struct StageSupervisorSetup {
  StageIndex stage;
  SharedState initial;  // of the window before the first; null: what the backend makes itself
  std::function<std::unique_ptr<StageBackend>()> make_backend;
  MemoryAccount* account = nullptr;
  ExecutorSupervisorActor executor;
  /// False for a later placement of the stage: it goes on from the checkpoints in its folder, if there are
  /// any.
  bool fresh = true;
  Incarnation incarnation_before;  // the lives of this placement count up from it
};

/// Ends with a chain of causes when restarts cannot mend the stage.
StageSupervisorActor spawn_stage_supervisor(caf::local_actor& parent,
                                            std::shared_ptr<const StageCommons> commons,
                                            StageSupervisorSetup setup);

}  // namespace zerolock
