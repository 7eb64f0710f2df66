#pragma once
/// The root of a run in one process: the coordinator's actors and, as the last of its children, the executor.

#include <memory>
#include <string>
#include <vector>

#include "actors/core/scheduler_core.hpp"
#include "actors/protocol.hpp"
#include "actors/run_recorder.hpp"
#include "data/micro_batch_provider.hpp"
#include "supervision/stage_supervisor.hpp"

namespace zerolock {

/// How a run ended, said once, when all other actors are gone.
struct RunEnd {
  bool finished = false;   // the last window, planned or asked for, is durable everywhere
  bool stopped = false;    // a stop was asked for
  bool bad_input = false;  // `failure` is the message of an InputError
  std::string failure;     // the chain of causes; empty when finished
  std::vector<StageSummary> stages;
};

/// Understands `stop`, and hears of the end from its scheduler.
using CoordinatorSupervisorActor = RunOwnerActor::extend<caf::reacts_to<stop_atom>>;

struct CoordinatorSetup {
  std::string run_id;
  std::string version;
  SchedulerSetup schedule;
  std::function<bool()> stop_requested;
  RecorderSinks sinks;
  std::shared_ptr<const MicroBatchProvider> batches;
  ExecutorCard card;     // of the executor in this process
  StageCommons commons;  // scheduler, targets and recorder are filled in
  std::vector<StageSupervisorSetup> stages;
  MemoryAccount* source_account = nullptr;  // token ids are charged to it
  caf::actor owner;                         // hears RunEnd
};

CoordinatorSupervisorActor spawn_coordinator_supervisor(caf::local_actor& parent, CoordinatorSetup setup);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::RunEnd)
