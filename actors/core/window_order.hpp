#pragma once
/// The order in which micro-batches and checkpoints follow one another in a run.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// How many micro-batches a window has; at least one. Window 0 has those of the calibration, and is only
/// asked for if there is one. Pure: the same window gives the same number in every process.
using MicroBatchCount = std::function<std::uint64_t(WindowIndex)>;

/// The last of the windows that are done, durable, released ... None: not even window 0, whose calibration is
/// still to come. None orders below every window.
using WindowsDone = std::optional<WindowIndex>;

/// The first window that is not done.
inline WindowIndex window_after(const WindowsDone& done) {
  return done ? done->next() : WindowIndex{0};
}

/// The micro-batch that is trained after `position`.
inline BatchPosition position_after(const BatchPosition& position, const MicroBatchCount& micro_batches) {
  if (position.micro_batch + 1 < micro_batches(position.window)) {
    return {position.window, position.micro_batch + 1};
  }
  return {position.window.next(), 0};
}

/// The first micro-batch that is worked on once the windows up to `done` are committed.
inline BatchPosition first_position_after(const WindowsDone& done) {
  return {window_after(done), 0};
}

/// Which windows are made durable: every multiple of `every`, which window 0 is, and the last one of the run.
struct CheckpointSchedule {
  std::uint64_t every = 1;
  WindowIndex last;

  [[nodiscard]] bool due(WindowIndex window) const { return window == last || window.value % every == 0; }
  /// The first window after `durable` that will be made durable.
  [[nodiscard]] WindowIndex next_after(const WindowsDone& durable) const {
    if (!durable) return WindowIndex{0};
    const WindowIndex multiple{(durable->value / every + 1) * every};
    return *durable < last ? std::min(multiple, last) : multiple;
  }
};

}  // namespace zerolock
