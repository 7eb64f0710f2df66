#pragma once
/// The actor that holds a stage's outbound entries since the recovery line and sends them as the downstream
/// allows.

#include "actors/core/outbound_buffer_core.hpp"
#include "actors/protocol.hpp"

namespace zerolock {

OutboundBufferActor spawn_outbound_buffer(caf::local_actor& parent, OutboundBufferSetup setup);

}  // namespace zerolock
