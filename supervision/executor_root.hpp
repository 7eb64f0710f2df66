#pragma once
/// The root of an executor's actors: its link to the coordinator and, once there is something to run, its
/// supervisor.

#include <memory>
#include <vector>

#include <atomic>
#include <memory>
#include <vector>

#include "actors/remote/coordinator_link.hpp"
#include "supervision/boundary_entrance.hpp"
#include "supervision/executor_run.hpp"

namespace zerolock {

/// Hears how the executor ended, said once, when all other actors are gone.
using ExecutorRootActor = CoordinatorListenerActor::extend<caf::reacts_to<stop_atom>>;

struct ExecutorRootSetup {
  ExecutorPlan plan;
  std::shared_ptr<Network> network;
  std::shared_ptr<BoundaryEntrance> entrance;  // of its listener
  /// Of the stages that it will host; they outlive all actors and tensors.
  std::shared_ptr<std::vector<std::unique_ptr<MemoryAccount>>> accounts;
  caf::actor owner;  // hears ExecutorEnd
  /// Set when a stage's thread hangs, so that not all actors will end.
  std::shared_ptr<std::atomic<bool>> hangs = std::make_shared<std::atomic<bool>>(false);
};

using ended_atom = caf::atom_constant<caf::atom("ended")>;

ExecutorRootActor spawn_executor_root(caf::local_actor& parent, ExecutorRootSetup setup);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::ExecutorEnd)
