#pragma once
/// The actor through which the user hears what happens.

#include <functional>
#include <string>

#include "actors/protocol.hpp"

namespace zerolock {

/// What the recorder calls, in its own context, one at a time. Must not block.
struct RecorderSinks {
  std::function<void(const WindowReport&)> window_committed;
  std::function<void(StageIndex)> calibrated;
  std::function<void(const TraceSpan&)> span;
  std::function<void(const StageRestart&)> restarted;
};

/// What a restarted stage trains or calibrates again is not reported again.
RunRecorderActor spawn_run_recorder(caf::local_actor& parent, RecorderSinks sinks);

}  // namespace zerolock
