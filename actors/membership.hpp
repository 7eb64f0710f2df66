#pragma once
/// The actor that knows who belongs to the cluster.

#include "actors/protocol.hpp"

namespace zerolock {

/// Admits executors of the given version.
MembershipActor spawn_membership(caf::local_actor& parent, const std::string& version);

}  // namespace zerolock
