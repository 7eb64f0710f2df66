#pragma once
/// The actor that calibrates and trains one stage, in a thread of its own.

#include <chrono>
#include <functional>
#include <memory>

#include "actors/compute_watch.hpp"
#include "actors/core/fault_point.hpp"
#include "actors/core/stage_progress_core.hpp"
#include "actors/protocol.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// One life of a stage worker.
struct StageWorkerSetup {
  StageIndex stage;
  Incarnation incarnation;
  SharedState state;  // to start from; null: what the backend makes itself
  StageProgressSetup progress;
  bool own_thread = true;  // false: for tests that step through messages
  std::chrono::steady_clock::time_point run_start;
  std::function<std::unique_ptr<StageBackend>()> make_backend;  // called in the worker's thread
  MemoryAccount* account = nullptr;                             // of the stage; outlives the worker
  FaultHook fault;                                              // may be empty
  std::shared_ptr<ComputeWatch> watch;                          // may be null
  HiddenStateBufferActor inbound;
  OutboundBufferActor outbound;  // invalid for the last stage
  CheckpointKeeperActor keeper;
  SchedulerActor scheduler;
  TargetsHolderActor targets;  // only spoken to by a life that starts with its calibration
  RunRecorderActor recorder;
};

/// Starts at once. The hidden-state buffer must have been rewound to this life before. Any exception ends the
/// life.
StageWorkerActor spawn_stage_worker(caf::local_actor& parent, const StageWorkerSetup& setup);

}  // namespace zerolock
