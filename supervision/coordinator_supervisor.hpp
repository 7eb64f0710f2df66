#pragma once
/// The root of a run: the coordinator's actors and, as the last of its children, the executors.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/scheduler_core.hpp"
#include "actors/protocol.hpp"
#include "actors/run_recorder.hpp"
#include "data/micro_batch_provider.hpp"
#include "tensors/base/memory_account.hpp"

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

/// The coordinator's actors, as executors need them.
struct CoordinatorPorts {
  JournalActor journal;
  RunRecorderActor recorder;
  MembershipActor membership;
  BatchSourceActor source;
  TargetsHolderActor targets;
  SchedulerActor scheduler;
};

/// Spawns what speaks for all executors, monitored by the caller: an executor in this process, or the links
/// to those in others. It ends with a chain of causes when a stage gives up.
using SpawnExecutors = std::function<ExecutorsActor(caf::local_actor&, const CoordinatorPorts&)>;

struct CoordinatorSetup {
  std::string session;                   // from one orderly end of the run to the next
  std::filesystem::path journal;         // file; empty: it lasts as long as the process
  std::optional<JournalState> recovers;  // this session's, of an earlier life of the coordinator
  std::string version;
  SchedulerSetup schedule;
  std::function<bool()> stop_requested;
  RecorderSinks sinks;
  std::shared_ptr<const MicroBatchProvider> batches;
  SpawnExecutors spawn_executors;
  MemoryAccount* source_account = nullptr;  // the batch source's entries are charged to it
  caf::actor owner;                         // hears RunEnd
};

CoordinatorSupervisorActor spawn_coordinator_supervisor(caf::local_actor& parent, CoordinatorSetup setup);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::RunEnd)
