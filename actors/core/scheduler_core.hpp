#pragma once
/// Which windows may be trained, how far back a restart may reach, and when the run is over.

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/core/journal.hpp"
#include "actors/core/window_order.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

struct SchedulerSetup {
  std::uint64_t stages = 1;
  WindowIndex first_window{1};
  WindowIndex last_window{1};  // before first_window: nothing is left to train
  /// Granted beyond the recovery line, at most; at least the checkpoint interval.
  std::uint64_t lead_windows = 1;
  /// Granted beyond what the slowest stage has committed, at most: enough to keep all stages busy, and no
  /// more, since a stop waits for all that was granted.
  std::uint64_t ahead_windows = 1;
  /// The stages are calibrated first, as window 0; first_window is 1. Else the window before the first counts
  /// as durable from the start.
  bool calibrates = false;
};

/// What is to be announced after an event. Empty: nothing.
struct SchedulerOrders {
  std::optional<WindowIndex> grant;          // all windows up to this one may be trained
  std::optional<WindowIndex> recovery_line;  // everything up to this window may be released
  std::optional<WindowIndex> end_at;         // the run ends with this window, earlier than planned
  bool finished = false;                     // every stage has made the last window durable; said once

  bool operator==(const SchedulerOrders&) const = default;
};

/// Plain state, no clock. Throws std::logic_error on reports that cannot be true.
class SchedulerCore {
 public:
  explicit SchedulerCore(const SchedulerSetup& setup);

  /// Before start(), in a coordinator that starts again: what it had promised and learnt. Stages that still
  /// run say where they are.
  void remember(const JournalState& journal);
  /// The first grants, those that are remembered included.
  SchedulerOrders start();
  /// Stage's optimizer step of `window` is applied; window 0: it is calibrated. A new incarnation may report
  /// a window again; an old one is ignored.
  SchedulerOrders committed(StageIndex stage, Incarnation incarnation, WindowIndex window);
  /// A checkpoint of `window` is on disk. Repeated and older reports change nothing.
  SchedulerOrders durable(StageIndex stage, WindowIndex window);
  /// No more grants: every stage ends with the last window granted, or with its calibration. Asking again
  /// changes nothing.
  SchedulerOrders request_stop();

  [[nodiscard]] WindowIndex granted() const { return granted_; }
  [[nodiscard]] const WindowsDone& recovery_line() const { return line_; }
  [[nodiscard]] WindowIndex last_window() const { return last_; }
  [[nodiscard]] const WindowsDone& committed(StageIndex stage) const {
    return stages_.at(stage.value).committed;
  }
  [[nodiscard]] bool stopping() const { return stopping_; }
  /// More could be granted as soon as the recovery line moves, or at once.
  [[nodiscard]] bool grants_left() const { return !stopping_ && granted_ < last_; }

 private:
  struct Stage {
    Incarnation incarnation;
    WindowsDone committed;
    WindowsDone durable;  // as reported; none: before_start_ is assumed
  };
  /// Moves line and grants as far as they go.
  SchedulerOrders advance();

  std::uint64_t lead_windows_;
  std::uint64_t ahead_windows_;
  WindowIndex last_;
  WindowIndex first_granted_;  // the window before the first: no promise
  WindowIndex granted_;
  WindowsDone before_start_;
  WindowsDone line_;
  bool started_ = false;
  bool stopping_ = false;
  bool finished_ = false;
  std::vector<Stage> stages_;
};

}  // namespace zerolock
