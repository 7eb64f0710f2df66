#pragma once
/// The actor that speaks, beside an upstream, for the downstream behind one connection. It lives as long as
/// both.

#include <cstdint>
#include <memory>

#include "actors/protocol.hpp"
#include "actors/remote/boundary_frames.hpp"
#include "transport/connection.hpp"

namespace zerolock {

using OutboundLinkActor = EntryReceiverActor::extend<caf::reacts_to<stop_atom>>;

struct OutboundLinkSetup {
  std::shared_ptr<Connection> connection;  // agreed to, not started
  UpstreamActor upstream;
  BoundaryTerms terms;
};

OutboundLinkActor spawn_outbound_link(caf::local_actor& parent, OutboundLinkSetup setup);

}  // namespace zerolock
