#pragma once
/// The actor that speaks, in the process of a stage, for the upstream in another one: dials it, again and
/// again if need be, and passes on what both say.

#include <cstdint>
#include <functional>
#include <memory>

#include "actors/protocol.hpp"
#include "actors/remote/boundary_frames.hpp"
#include "tensors/base/memory_account.hpp"
#include "transport/network.hpp"

namespace zerolock {

struct InboundLinkSetup {
  StageIndex boundary;
  BoundaryTerms terms;
  std::shared_ptr<Network> network;
  DialOptions dial;                              // whom, as whom; its connection options are filled in
  bool upstream_known = true;                    // false: it waits to hear of it
  MemoryAccount* account = nullptr;              // received entries are charged to it; outlives the link
  std::uint64_t first_session = 1;               // above all that earlier placements of the stage have used
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
};

using moved_atom = caf::atom_constant<caf::atom("moved")>;  // -> link: node and address of the upstream now

/// What its executor tells it, beside what a stage's downstream does.
using MovableInboundLinkActor =
    InboundLinkActor::extend<caf::reacts_to<moved_atom, std::string, std::string>>;

/// Fails, permanently, if the other side stays away too long; otherwise it waits.
MovableInboundLinkActor spawn_inbound_link(caf::local_actor& parent, InboundLinkSetup setup);

}  // namespace zerolock
