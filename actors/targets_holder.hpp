#pragma once
/// The actor that keeps what the stages are fitted to while their calibration may still have to be repeated.

#include "actors/protocol.hpp"

namespace zerolock {

TargetsHolderActor spawn_targets_holder(caf::local_actor& parent);

}  // namespace zerolock
