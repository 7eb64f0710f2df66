#pragma once
/// What a stage worker does next: take, forward and send on, local training, step, checkpoint, or wait for
/// what; and before all training its calibration, which is window 0.

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "actors/core/flow_credit.hpp"
#include "actors/core/training_schedule.hpp"
#include "actors/core/window_order.hpp"

namespace zerolock {

struct StageProgressSetup {
  /// Of the state that the worker starts from; none: it is calibrated first.
  WindowsDone committed = WindowIndex{0};
  bool save_first = false;         // that state is not on disk yet
  bool has_downstream = false;     // forwards are sent on, within an allowance
  std::uint64_t unsaved_max = 2;   // checkpoints handed over and not yet durable, at most
  CheckpointSchedule checkpoints;  // its last window is the last of the run
  MicroBatchCount micro_batches;
  WindowSchedule schedule = chunk_local_schedule;
  /// Backwards wait for the gradient that the next stage sends back; nobody replays, so the outbound buffer
  /// keeps nothing that was sent and at most output_bytes_max of what was not.
  bool gradients_return = false;
  std::uint64_t output_bytes_max = 0;
  /// A life that finds entries waiting, because the stage was away, asks for so many ahead and does their
  /// forwards and backwards together, as far as they are of one window, until it has caught up. 1: never.
  std::uint64_t replay_batch = 1;
};

struct StageAction {
  enum class Kind : std::uint8_t {
    take,             // ask the hidden-state buffer for `position`, ahead of the forwards
    forward,          // of `position`; send the result on if `emit`
    backward,         // backward of `position`, with the local loss or the gradient that came back
    step,             // optimizer step of position.window
    calibrate,        // forward of the base model on `position`; send the result on if `emit`
    hand_over,        // the targets that this last stage has made go to the coordinator
    fit,              // to the targets that the coordinator has given
    checkpoint,       // hand a copy of the state, committed at position.window, to the keeper
    wait_input,       // for the entry of `position`, or for its gradient
    wait_output,      // for room or credit before the forward of `position`
    wait_targets,     // for the coordinator to have them
    wait_checkpoint,  // for the disk: too many checkpoints are under way
    blocked,          // no room for the output of `position`, and none can come
    finished,         // the last window is committed and handed over
  } kind = Kind::finished;
  BatchPosition position;
  bool emit = false;
  /// Forward: of so many micro-batches, from `position` on, which may be done at once (begins_together).
  /// Backward: of those whose forward was.
  std::uint64_t together = 1;

  constexpr bool operator==(const StageAction&) const = default;
};

/// Plain state of one life of a worker. The caller does what next() says and reports it back.
class StageProgressCore {
 public:
  explicit StageProgressCore(StageProgressSetup setup);

  [[nodiscard]] StageAction next() const;
  /// The same, once nothing more is to be asked for.
  [[nodiscard]] StageAction due() const;

  /// The forwards of `count` micro-batches, as many as next() allows at most, are done next, and then their
  /// backwards. Each is still reported for itself.
  void begins_together(std::uint64_t count);
  /// Nothing waits any more: from now on, micro-batches are taken one by one.
  void caught_up() { replays_ = false; }
  /// Whether it takes several at once, and has not caught up.
  [[nodiscard]] bool replays() const { return replays_; }

  void asked();                                                     // done: take
  void received(const BatchPosition& position, std::int64_t rows);  // the entry came
  /// The gradient of that micro-batch's output came, of one that was sent on and has none yet.
  void gradient_received(const BatchPosition& position);
  void forwarded(std::uint64_t bytes);               // done: forward, calibrate; its result
  void trained();                                    // done: backward
  void stepped();                                    // done: step
  void handed_over();                                // done: hand_over
  void targets_known();                              // the coordinator has given them
  void fitted();                                     // done: fit; window 0 is committed
  void saved();                                      // done: checkpoint handed over
  void allowance(const OutputAllowance& allowance);  // the outbound buffer's latest word
  void made_durable(WindowIndex window);
  /// The run ends with this window. Not before the committed one.
  void end_at(WindowIndex window);

  [[nodiscard]] const WindowsDone& committed() const { return committed_; }

 private:
  [[nodiscard]] StageAction next_step() const;
  [[nodiscard]] StageAction next_forward(StageAction::Kind forward, const BatchPosition& position) const;
  [[nodiscard]] std::uint64_t forwards_at_once() const;
  [[nodiscard]] bool never_fits(const BatchPosition& position, std::uint64_t bytes) const;
  [[nodiscard]] bool checkpoint_pending() const;
  [[nodiscard]] const ScheduledStep& current() const { return steps_.at(done_steps_); }
  void open_window();
  void commit();

  StageProgressSetup setup_;
  WindowsDone committed_;
  WindowsDone saved_;                 // the last state handed over, or known to be on disk
  std::deque<WindowIndex> unsaved_;   // handed over, not durable
  std::vector<ScheduledStep> steps_;  // of the window after committed_; empty after the last
  std::size_t done_steps_ = 0;
  bool targets_known_ = false;
  struct Received {
    BatchPosition position;
    std::int64_t rows = 0;
  };

  bool replays_ = false;
  std::uint64_t asked_ = 0;            // entries that have not come yet
  BatchPosition next_to_ask_;          // the first that has not been asked for
  BatchPosition input_;                // the first that has not been forwarded
  std::deque<Received> received_;      // that wait for their forward, from input_ on
  BatchPosition joint_first_;          // of the micro-batches that were begun together last
  std::uint64_t joint_ = 1;            // how many they are
  std::set<BatchPosition> sent_on_;    // forwarded, and without their gradient; where gradients return
  std::set<BatchPosition> gradients_;  // that wait for their backward
  std::optional<OutputAllowance> allowance_;
  std::uint64_t sent_entries_ = 0;  // as OutputAllowance counts
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t bytes_per_row_ = 0;  // of the last result; 0: not known yet
};

}  // namespace zerolock
