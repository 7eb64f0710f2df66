#pragma once
/// The coordinator's view of executors in other processes: waits for them, gives each its stages, gives the
/// stages of lost ones to others, and stands for all of them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/core/journal.hpp"
#include "actors/core/placement_core.hpp"
#include "actors/remote/executor_link.hpp"
#include "supervision/coordinator_supervisor.hpp"
#include "supervision/stage_places.hpp"

namespace zerolock {

/// Throws InputError if the run cannot be placed on these.
using SpreadStages = std::function<PlannedPlaces(const std::vector<ExecutorCard>&)>;
/// Asks the machine of an executor that is out of reach whether its process is still there. `nobody_there` is
/// called, on any thread, if it is not; never, if that cannot be told.
using ProbeExecutor =
    std::function<void(const ExecutorCard& card, std::function<void(std::string cause)> nobody_there)>;

struct RemoteExecutorsSetup {
  /// Looked at while executors are awaited: a run that has not begun needs no orderly end.
  std::function<bool()> stop_requested;
  /// Stages are placed once so many have joined, spares not counted, and those `awaited` are among them. For
  /// these, which have been here before, it waits as long as stages may be vacant; for others without an end.
  std::uint64_t executors_wanted = 1;
  std::set<std::string> awaited;  // nodes
  PlacementSetup placement;
  SpreadStages spread;
  std::string session;                   // of the run; executors that have stages name it
  std::optional<JournalState> recovers;  // the coordinator has started again: its executors come back
  /// An executor's stages in full, without states that the coordinator has on disk.
  std::function<ExecutorAssignment(const std::vector<PlacedStage>& own,
                                   const std::vector<StagePlace>& places)>
      assignment;
  std::function<void(const StagePlace&)> admit_first;  // whose stage 0 may take what the batch source makes
  ProbeExecutor probe;                                 // may be empty
  std::filesystem::path checkpoints;                   // copies of all durable states go there
  std::uint64_t payload_bytes_max = 0;
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
  ExecutorObserver observer;
};

using inject_atom =
    caf::atom_constant<caf::atom("inject")>;              // -> remote executors: a fault, as text, of a stage
using lost_atom = caf::atom_constant<caf::atom("lost")>;  // -> remote executors: a life of one is over

/// Takes control connections of executors that were let in, with the name of the node; and word, with the
/// cause, that an executor's process is gone.
using RemoteExecutorsActor =
    ExecutorsActor::extend<caf::reacts_to<accept_atom, std::string, AcceptedConnection>,
                           caf::reacts_to<lost_atom, std::string, std::string>,
                           caf::reacts_to<inject_atom, StageIndex, std::string>>;

/// Ends with a chain of causes when stages have been lost too often, or nobody is there to take them over.
RemoteExecutorsActor spawn_remote_executors(caf::local_actor& parent, RemoteExecutorsSetup setup,
                                            const CoordinatorPorts& ports);

}  // namespace zerolock
