#pragma once
/// How every process of a run sets up its actors.

#include <caf/all.hpp>

#include "actors/protocol.hpp"

namespace zerolock {

/// CAF's default scheduler polls, with pauses of up to 10 ms; the one with a shared queue wakes its threads.
struct ActorSystemConfig : caf::actor_system_config {
  ActorSystemConfig() {
    zerolock::add_message_types(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
  }
};

}  // namespace zerolock
