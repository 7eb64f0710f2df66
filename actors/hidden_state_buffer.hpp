#pragma once
/// The actor that holds a stage's inbound entries since its last durable window, beside the worker that it
/// feeds.

#include "actors/core/hidden_state_buffer_core.hpp"
#include "actors/protocol.hpp"

namespace zerolock {

/// Expects nothing before its first `rewind`, which says where the stage starts; setup.durable is ignored.
HiddenStateBufferActor spawn_hidden_state_buffer(caf::local_actor& parent, HiddenStateBufferSetup setup);

}  // namespace zerolock
