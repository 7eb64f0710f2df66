#pragma once
/// How an actor passes a place at which a fault may be injected.

#include <caf/all.hpp>

#include "actors/core/fault_point.hpp"

namespace zerolock {

/// Thrown by a fault hook: the actor is to be killed, as from outside.
struct KillRequested {};

/// Calls the hook, if there is one. What it throws is the actor's failure, but for a request to kill, which
/// reaches the actor's mailbox ahead of everything else.
template <class Self>
void pass_fault_point(Self* self, const FaultHook& hook, FaultPoint point, StageIndex stage,
                      Incarnation incarnation, const BatchPosition& position) {
  if (!hook) return;
  try {
    hook(point, stage, incarnation, position);
  } catch (const KillRequested&) {
    caf::anon_send<caf::message_priority::high>(caf::actor_cast<caf::actor>(self),
                                                caf::exit_msg{self->address(), caf::exit_reason::kill});
  }
}

}  // namespace zerolock
