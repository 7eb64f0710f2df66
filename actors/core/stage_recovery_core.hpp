#pragma once
/// From where a life of a stage goes on: the stage's half of recovery.

#include <cstdint>

#include "actors/core/window_order.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

struct StageRecoverySetup {
  WindowIndex first_window{1};
  bool calibrates = false;      // window 0 is worked off first; first_window is 1
  bool has_downstream = false;  // a next stage takes the outputs
  /// This is the stage's first placement: nothing on disk belongs to it before it has saved. A later
  /// placement goes on from what it finds.
  bool fresh = true;
  Incarnation incarnation_before;  // lives count up from it
};

/// What the supervisor of the stage has to do next, in one attempt to begin a life.
struct RecoveryOrder {
  enum class Kind : std::uint8_t {
    nothing,         // the answer was to an earlier attempt
    ask_downstream,  // or rather the outbound buffer, which knows: what does it lack?
    restore,         // ask the keeper for the newest good state of `window` or an earlier one
    begin_anew,      // from the state that the run began with, which is not on disk yet
    go_on,           // from the restored state of `window`
    restart_all,     // buffers too: the inputs that follow the restored state are no longer here
    give_up,         // no state is left to go on from
  } kind = Kind::nothing;
  std::uint64_t attempt = 0;  // to be given back with the answer
  WindowIndex window;         // restore, go_on

  constexpr bool operator==(const RecoveryOrder&) const = default;
};

/// Plain state, which outlives all children of the stage.
class StageRecoveryCore {
 public:
  explicit StageRecoveryCore(const StageRecoverySetup& setup);

  /// A new life of the worker is due; buffers and keeper stand.
  RecoveryOrder begin();
  /// The first output that the outbound buffer neither holds nor knows to be held: a new one knows it when
  /// the downstream has connected. The life has to begin before it, even if there is a later checkpoint,
  /// which a stage that has gone back before has not reached again.
  [[nodiscard]] RecoveryOrder downstream_lacks(std::uint64_t attempt,
                                               const BatchPosition& first_lacking) const;
  /// The keeper's answer: the newest good state that it has.
  [[nodiscard]] RecoveryOrder restored(std::uint64_t attempt, WindowIndex window) const;
  /// The keeper's answer: no good state.
  [[nodiscard]] RecoveryOrder none_good(std::uint64_t attempt) const;
  /// Children are being stopped: answers still on their way are void. `buffers`: those go too, with all that
  /// they hold.
  void interrupted(bool buffers);
  [[nodiscard]] bool current(std::uint64_t attempt) const { return attempt == attempt_; }

  /// A life begins from there, as ordered by begin_anew or go_on: inputs up to it are released. Returns its
  /// incarnation.
  Incarnation began(const WindowsDone& committed);
  /// A checkpoint of `window` is on disk: inputs up to it are released.
  void durable(WindowIndex window);
  /// The recovery line never falls.
  void line(WindowIndex line);

  /// What is done when the run begins; none: the calibration is still to come.
  [[nodiscard]] const WindowsDone& initial() const { return initial_; }
  [[nodiscard]] const WindowsDone& line() const { return line_; }
  /// The last life that has begun.
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }
  /// No life of this placement has begun yet.
  [[nodiscard]] bool before_first_life() const { return incarnation_ == setup_.incarnation_before; }
  /// What is on disk under the stage's name is left over from another run.
  [[nodiscard]] bool disk_is_foreign() const { return setup_.fresh && before_first_life(); }

 private:
  [[nodiscard]] RecoveryOrder order(RecoveryOrder::Kind kind, WindowIndex window = {}) const {
    return {kind, attempt_, window};
  }
  [[nodiscard]] RecoveryOrder restore(WindowIndex at_most) const;

  StageRecoverySetup setup_;
  WindowsDone initial_;
  WindowsDone line_;
  Incarnation incarnation_;
  WindowsDone durable_;   // on disk, as far as this placement knows
  WindowsDone released_;  // inputs up to here have left the inbound buffer; none: all are there, or will come
  std::uint64_t attempt_ = 0;
};

}  // namespace zerolock
