#pragma once
/// The coordinator's view of executors in other processes: waits for them, gives each its stages, and stands
/// for all of them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/remote/executor_link.hpp"
#include "supervision/coordinator_supervisor.hpp"

namespace zerolock {

/// Decides what each of the executors runs, in their order; those that get no stage stand by. Throws
/// InputError if the run cannot be placed on them.
using AssignStages = std::function<std::vector<ExecutorAssignment>(const std::vector<ExecutorCard>&)>;

struct RemoteExecutorsSetup {
  /// Looked at while executors are awaited: a run that has not begun needs no orderly end.
  std::function<bool()> stop_requested;
  std::uint64_t executors_wanted = 1;  // stages are assigned once so many have joined
  AssignStages assign;
  std::filesystem::path checkpoints;  // copies of all durable states go there
  std::uint64_t payload_bytes_max = 0;
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
  ExecutorObserver observer;
};

using lost_atom = caf::atom_constant<caf::atom("lost")>;  // -> remote executors: one will not come again

/// Takes control connections of executors that were let in, with the name of the node; and word, with the
/// cause, that an executor is gone for good.
using RemoteExecutorsActor =
    ExecutorsActor::extend<caf::reacts_to<accept_atom, std::string, AcceptedConnection>,
                           caf::reacts_to<lost_atom, std::string, std::string>>;

/// Ends with a chain of causes when an executor that has stages is lost or gives up.
RemoteExecutorsActor spawn_remote_executors(caf::local_actor& parent, RemoteExecutorsSetup setup,
                                            const CoordinatorPorts& ports);

}  // namespace zerolock
