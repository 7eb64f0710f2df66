#pragma once
/// The actor that grants windows, keeps the recovery line and knows when the run is over.

#include <functional>
#include <optional>

#include "actors/core/scheduler_core.hpp"
#include "actors/protocol.hpp"

namespace zerolock {

struct SchedulerWiring {
  JournalActor journal;  // hears of a grant before anybody else
  BatchSourceActor source;
  TargetsHolderActor targets;                                   // hears of the recovery line
  RunOwnerActor owner;                                          // hears of the end
  std::function<bool()> stop_requested = [] { return false; };  // looked at before each grant
  std::optional<JournalState> recovers;  // what an earlier life of the coordinator has promised and learnt
};

SchedulerActor spawn_scheduler(caf::local_actor& parent, const SchedulerSetup& setup, SchedulerWiring wiring);

}  // namespace zerolock
