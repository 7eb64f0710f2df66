#pragma once
/// From the network's thread into actors: frames and ends of connections as messages.

#include <caf/all.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/connection.hpp"
#include "transport/network.hpp"

namespace zerolock {

using frame_atom = caf::atom_constant<caf::atom("frame")>;      // connection -> link: it has received this
using closed_atom = caf::atom_constant<caf::atom("closed")>;    // connection -> link: it has ended
using dialled_atom = caf::atom_constant<caf::atom("dialled")>;  // network -> link: a connection, or none

/// A frame on its way to an actor; while it is held, its bytes count against what may wait.
struct ReceivedFrame {
  std::shared_ptr<const Frame> frame;
};

/// What became of dialling.
struct DialOutcome {
  std::shared_ptr<const DialResult> result;
};

/// Hears of a connection. The number says which: links that dial again ignore what earlier ones still say.
using ConnectionOwnerActor = caf::typed_actor<caf::reacts_to<frame_atom, std::uint64_t, ReceivedFrame>,
                                              caf::reacts_to<closed_atom, std::uint64_t, std::string>>;
/// One that dials.
using DiallerActor = ConnectionOwnerActor::extend<caf::reacts_to<dialled_atom, std::uint64_t, DialOutcome>>;

/// Starts the connection with `owner` as the one who hears. A peer that sends faster than the owner looks at
/// it, up to `waiting_bytes_max` and a share of small frames, has exceeded what it was allowed; the
/// connection is then closed with that reason. Does not keep the owner alive.
void start_for(Connection& connection, const ConnectionOwnerActor& owner, std::uint64_t number,
               std::size_t waiting_bytes_max);

/// Dials, and tells `owner`. Does not keep it alive.
void dial_for(Network& network, DialOptions options, const DiallerActor& owner, std::uint64_t number);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::ReceivedFrame)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::DialOutcome)
