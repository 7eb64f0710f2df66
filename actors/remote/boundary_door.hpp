#pragma once
/// The actor that lets downstreams of other processes in.

#include <memory>

#include "actors/protocol.hpp"
#include "actors/remote/boundary_frames.hpp"
#include "transport/connection.hpp"

namespace zerolock {

using accept_atom =
    caf::atom_constant<caf::atom("accept")>;  // listener -> door: a connection that was let in

struct AcceptedConnection {
  std::shared_ptr<Connection> connection;  // not started
};

/// Knows what sends across each boundary that leads out of this process. A connection for a boundary that
/// nothing sends across yet is closed; its downstream tries again.
using OpenBoundaryDoorActor =
    BoundaryDoorActor::extend<caf::reacts_to<accept_atom, StageIndex, AcceptedConnection>>;

/// `terms` of all boundaries that lead out of here.
OpenBoundaryDoorActor spawn_boundary_door(caf::local_actor& parent, const BoundaryTerms& terms);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::AcceptedConnection)
