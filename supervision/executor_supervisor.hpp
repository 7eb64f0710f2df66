#pragma once
/// The actor that keeps one executor alive: its agent and its stages, and the boundaries between them.

#include <functional>
#include <memory>
#include <vector>

#include "actors/protocol.hpp"
#include "actors/remote/imitated_link.hpp"
#include "supervision/stage_supervisor.hpp"

namespace zerolock {

/// How an executor reaches the stages that other processes host. Empty where there are none.
struct BoundaryLinks {
  /// Spawns, monitored by the caller, the link that speaks for the upstream of a boundary.
  std::function<InboundLinkActor(caf::local_actor&, StageIndex boundary)> dial;
  BoundaryDoorActor door;  // hears what sends across the boundaries that lead out of the process
};

/// Spawns, monitored by the caller, what imitates a network at a boundary between two stages of one process.
using SpawnImitation = std::function<ImitatedLinkActor(caf::local_actor&, StageIndex boundary)>;

struct ExecutorSetup {
  ExecutorCard card;
  std::shared_ptr<const StageCommons> commons;
  std::vector<StageSupervisorSetup> stages;  // those it hosts, ascending; their `executor` is filled in
  MembershipActor membership;                // invalid: the link to the coordinator speaks for the executor
  UpstreamActor source;                      // of boundary 0; invalid: it is in another process
  BoundaryLinks links;
  SpawnImitation imitate;                             // may be empty
  std::function<std::uint64_t()> process_bytes_peak;  // may be empty; for the summaries
};

/// Ends with a chain of causes when a stage gives up.
ExecutorSupervisorActor spawn_executor_supervisor(caf::local_actor& parent, ExecutorSetup setup);

}  // namespace zerolock
