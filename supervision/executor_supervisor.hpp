#pragma once
/// The actor that keeps one executor alive: its agent and its stages, and the boundaries between them.

#include <memory>
#include <vector>

#include "actors/protocol.hpp"
#include "supervision/stage_supervisor.hpp"

namespace zerolock {

struct ExecutorSetup {
  ExecutorCard card;
  std::shared_ptr<const StageCommons> commons;
  std::vector<StageSupervisorSetup> stages;  // all stages of the run, in order; their `executor` is filled in
  MembershipActor membership;
  BatchSourceActor source;  // the upstream of boundary 0
};

/// Ends with a chain of causes when a stage gives up.
ExecutorSupervisorActor spawn_executor_supervisor(caf::local_actor& parent, ExecutorSetup setup);

}  // namespace zerolock
