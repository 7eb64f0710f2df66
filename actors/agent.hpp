#pragma once
/// The actor that speaks for an executor towards membership: joins, beats, leaves.

#include "actors/protocol.hpp"

namespace zerolock {

/// Fails, permanently, if it is not admitted.
AgentActor spawn_agent(caf::local_actor& parent, const ExecutorCard& card, const MembershipActor& membership);

}  // namespace zerolock
