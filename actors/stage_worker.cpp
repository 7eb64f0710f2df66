#include "actors/stage_worker.hpp"

#include <ATen/Parallel.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/fault_call.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/joint_backend.hpp"

namespace zerolock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t spans_kept_max = 256;  // then they go to the recorder, at the latest

/// The sums behind a WindowReport.
class WindowTally {
 public:
  void add(const LossReport& report) {
    sum_.task_loss += report.task_loss;
    sum_.consistency_loss += report.consistency_loss;
    sum_.loss += report.loss;
    sum_.supervised_rows += report.supervised_rows;
    sum_.examples += report.examples;
    ++micro_batches_;
  }
  void add_busy(std::chrono::nanoseconds time) { busy_ += time; }

  [[nodiscard]] WindowReport report(StageIndex stage, WindowIndex window, const StepReport& step) const {
    LossReport mean = sum_;
    const auto count = static_cast<double>(micro_batches_);
    mean.task_loss /= count;
    mean.consistency_loss /= count;
    mean.loss /= count;
    return {stage, window, mean, step, busy_};
  }

 private:
  LossReport sum_;
  std::uint64_t micro_batches_ = 0;
  std::chrono::nanoseconds busy_{0};
};

class StageWorker final : public StageWorkerActor::base {
 public:
  StageWorker(caf::actor_config& config, caf::actor_addr parent, StageWorkerSetup setup)
      : StageWorkerActor::base(config), setup_(std::move(setup)), progress_(setup_.progress) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "stage worker"; }

  behavior_type make_behavior() override {
    return {[this](start_atom) { on_start(); },
            [this](entry_atom, const Entry& entry) {
              entries_.push_back(entry);
              progress_.received(entry.position, entry.layout->rows());
              {
                const ComputeScope scope(setup_.watch, ComputeStep::receive, entry.position);
                reached(FaultPoint::entry_received, entry.position);
              }
              heard_entry_ = true;
              if (progress_.replays()) {
                gather();
              } else {
                work();
              }
            },
            [this](allow_atom, const OutputAllowance& allowance) {
              progress_.allowance(allowance);
              work();
            },
            [this](gradient_atom, const OutputGradient& gradient) {
              progress_.gradient_received(gradient.position);
              gradients_.emplace(gradient.position, gradient.gradient);
              work();
            },
            [this](durable_atom, WindowIndex window) {
              progress_.made_durable(window);
              work();
            },
            [this](targets_atom, const CalibrationTargets& targets) {
              targets_ = targets;
              progress_.targets_known();
              work();
            },
            [this](end_at_atom, WindowIndex window) {
              progress_.end_at(window);
              work();
            }};
  }

  void on_exit() override {
    flush_spans();
    joint_ = nullptr;
    backend_.reset();
    setup_ = {};
  }

 private:
  [[nodiscard]] Clock::duration now() const { return Clock::now() - setup_.run_start; }

  void reached(FaultPoint point, const BatchPosition& position) {
    pass_fault_point(this, setup_.fault, point, setup_.stage, setup_.incarnation, position);
  }

  void on_start() {
    if (setup_.own_thread) at::set_num_threads(1);
    const MemoryScope scope(*setup_.account, MemoryComponent::activations);
    const auto begin = now();
    backend_ = setup_.make_backend();
    ZEROLOCK_INVARIANT(backend_ != nullptr, "the factory makes a backend");
    joint_ = dynamic_cast<JointBackend*>(backend_.get());
    if (setup_.state.state) {
      ZEROLOCK_INVARIANT(setup_.state.state->window == progress_.committed(),
                         "the state is that of the window");
      backend_->restore(*setup_.state.state);
      setup_.state.state.reset();
    }
    add_span(TraceSpan::Kind::restore, {progress_.committed().value_or(WindowIndex{0}), 0}, begin, now());
    const auto self = caf::actor_cast<StageWorkerActor>(this);
    if (progress_.committed()) {
      ZEROLOCK_INVARIANT(!backend_->needs_calibration(), "the plan knows whether the stages are calibrated");
      send(setup_.scheduler, commit_atom::value, setup_.stage, setup_.incarnation, *progress_.committed());
    } else {
      send(setup_.targets, attach_atom::value, setup_.stage, setup_.incarnation, TargetsReceiverActor{self});
    }
    if (setup_.outbound) send(setup_.outbound, attach_atom::value, setup_.incarnation, self);
    work();
  }

  /// Does whatever can be done now. Everything it has to wait for comes as a message.
  void work() {
    if (!backend_ || gathering_) return;  // not started yet; or in a moment
    const MemoryScope scope(*setup_.account, MemoryComponent::activations);
    while (carry_out(progress_.next())) {
    }
  }

  /// A life that replays first hears how much waits for it: whatever the buffer had when it got this word
  /// has come before its answer. If that was nothing, the stage has caught up.
  void gather() {
    if (gathering_) return;
    gathering_ = true;
    const auto gathered = [this] {
      gathering_ = false;
      if (entries_.empty()) progress_.caught_up();
      work();
    };
    // A buffer that does not answer is gone, and so is this life soon.
    request(setup_.inbound, deadlines.buffer_summary, summary_atom::value)
        .then([gathered](const InboundStatistics&) { gathered(); }, [gathered](caf::error&) { gathered(); });
  }

  /// Returns false when there is nothing to do but wait.
  bool carry_out(const StageAction& action) {
    note_waiting(action);
    switch (action.kind) {
      case StageAction::Kind::take:
        send(setup_.inbound, take_atom::value, setup_.incarnation, caf::actor_cast<StageWorkerActor>(this));
        progress_.asked();
        return true;
      case StageAction::Kind::forward:
        forward(action);
        return true;
      case StageAction::Kind::backward:
        backward(action);
        return true;
      case StageAction::Kind::step:
        step(action.position);
        return true;
      case StageAction::Kind::calibrate:
        calibrate(action);
        return true;
      case StageAction::Kind::hand_over:
        hand_over_targets(action.position);
        return true;
      case StageAction::Kind::fit:
        fit(action.position);
        return true;
      case StageAction::Kind::checkpoint:
        checkpoint(action.position.window);
        return true;
      case StageAction::Kind::blocked:
        throw InputError(
            "the outbound buffer of stage " + std::to_string(setup_.stage.value),
            "has no room for the output of " + to_string(action.position) +
                ", and none can come before the next checkpoint; allow more bytes, checkpoint more often, "
                "or make windows smaller");
      case StageAction::Kind::wait_input:
        if (progress_.replays() && heard_entry_) gather();
        return false;
      case StageAction::Kind::wait_output:
      case StageAction::Kind::wait_targets:
      case StageAction::Kind::wait_checkpoint:
        return false;
      case StageAction::Kind::finished:
        flush_spans();
        return false;
    }
    return false;
  }

  /// The hidden state leaves before the backward begins: the next stage works on it meanwhile.
  void forward(const StageAction& action) {
    const ComputeScope scope(setup_.watch, ComputeStep::forward, action.position);
    if (action.together > 1) {
      forward_together(action);
      return;
    }
    reached(FaultPoint::forward_begin, action.position);
    const auto begin = now();
    at::Tensor hidden = backend_->begin(entries_.front());
    account_for(TraceSpan::Kind::forward, action.position, begin);
    reached(FaultPoint::forward_end, action.position);
    send_on(action, std::move(hidden));
  }

  /// One span for all of them.
  void forward_together(const StageAction& action) {
    progress_.begins_together(action.together);
    const std::vector<Entry> entries(entries_.begin(),
                                     entries_.begin() + static_cast<std::ptrdiff_t>(action.together));
    for (const Entry& entry : entries) reached(FaultPoint::forward_begin, entry.position);
    const auto begin = now();
    std::vector<at::Tensor> hidden;
    if (joint_ != nullptr) {
      hidden = joint_->begin_together(entries);
    } else {
      for (const Entry& entry : entries) hidden.push_back(backend_->begin(entry));
    }
    account_for(TraceSpan::Kind::forward, action.position, begin);
    for (const Entry& entry : entries) reached(FaultPoint::forward_end, entry.position);
    for (at::Tensor& state : hidden) send_on(progress_.due(), std::move(state));
  }

  void send_on(const StageAction& action, at::Tensor hidden) {
    const std::uint64_t bytes = hidden.defined() ? hidden.nbytes() : 0;
    if (action.emit) {
      send(setup_.outbound, put_atom::value,
           Entry{action.position, setup_.incarnation, entries_.front().layout, std::move(hidden)});
    }
    progress_.forwarded(bytes);
    entries_.pop_front();
    reached(FaultPoint::entry_sent, action.position);
  }

  void calibrate(const StageAction& action) {
    const ComputeScope scope(setup_.watch, ComputeStep::calibration, action.position);
    reached(FaultPoint::forward_begin, action.position);
    const auto begin = now();
    at::Tensor hidden = backend_->calibrate_begin(entries_.front());
    add_span(TraceSpan::Kind::calibrate, action.position, begin, now());
    reached(FaultPoint::forward_end, action.position);
    send_on(action, std::move(hidden));
  }

  void hand_over_targets(const BatchPosition& position) {
    const ComputeScope scope(setup_.watch, ComputeStep::fit, position);
    const CalibrationTargets targets{backend_->calibration_targets()};
    if (!targets.rows.defined()) throw InputError("calibration data", "has no supervised row to fit to");
    reached(FaultPoint::targets_made, position);
    send(setup_.targets, targets_atom::value, targets);
    progress_.handed_over();
    reached(FaultPoint::targets_sent, position);
  }

  void fit(const BatchPosition& position) {
    const ComputeScope scope(setup_.watch, ComputeStep::fit, position);
    reached(FaultPoint::fit_begin, position);
    const auto begin = now();
    backend_->calibrate_finish(targets_.rows);
    targets_ = {};
    ZEROLOCK_INVARIANT(!backend_->needs_calibration(), "a stage that was fitted can be trained");
    add_span(TraceSpan::Kind::calibrate, position, begin, now());
    reached(FaultPoint::fit_end, position);
    progress_.fitted();
    send(setup_.scheduler, commit_atom::value, setup_.stage, setup_.incarnation, position.window);
    flush_spans();
  }

  void backward(const StageAction& action) {
    const BatchPosition& position = action.position;
    const ComputeScope scope(setup_.watch, ComputeStep::backward, position);
    if (action.together > 1) {
      backward_together(action);
      return;
    }
    const auto begin = now();
    if (setup_.progress.gradients_return) {
      backpropagate(position);
    } else {
      tally_.add(backend_->finish(position));
    }
    account_for(TraceSpan::Kind::backward, position, begin);
    reached(FaultPoint::backward, position);
    progress_.trained();
  }

  void backward_together(const StageAction& action) {
    std::vector<BatchPosition> positions{action.position};
    while (positions.size() < action.together) {
      positions.push_back(position_after(positions.back(), setup_.progress.micro_batches));
    }
    const auto begin = now();
    std::vector<LossReport> reports;
    if (joint_ != nullptr) {
      reports = joint_->finish_together(positions);
    } else {
      for (const BatchPosition& position : positions) reports.push_back(backend_->finish(position));
    }
    account_for(TraceSpan::Kind::backward, action.position, begin);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      tally_.add(reports[i]);
      reached(FaultPoint::backward, positions[i]);
      progress_.trained();
    }
  }

  /// The gradient goes back the way the entry came.
  void backpropagate(const BatchPosition& position) {
    at::Tensor gradient;
    if (setup_.progress.has_downstream) gradient = std::move(gradients_.extract(position).mapped());
    BackwardResult result = backend_->backpropagate(position, std::move(gradient));
    tally_.add(result.report);
    if (setup_.stage.value == 0) return;
    send(setup_.inbound, gradient_atom::value, OutputGradient{position, std::move(result.input_gradient)});
  }

  void step(const BatchPosition& position) {
    const ComputeScope scope(setup_.watch, ComputeStep::step, position);
    const auto begin = now();
    const StepReport report = backend_->step(position.window);
    account_for(TraceSpan::Kind::step, position, begin);
    reached(FaultPoint::step, position);
    progress_.stepped();
    send(setup_.scheduler, commit_atom::value, setup_.stage, setup_.incarnation, position.window);
    send(setup_.recorder, report_atom::value, tally_.report(setup_.stage, position.window, report));
    tally_ = {};
    flush_spans();
  }

  void checkpoint(WindowIndex window) {
    const ComputeScope compute(setup_.watch, ComputeStep::copy, {window, 0});
    const MemoryScope scope(MemoryComponent::optimizer);
    StageState state = backend_->state();
    state.window = window;
    send(setup_.keeper, save_atom::value, setup_.incarnation,
         SharedState{std::make_shared<const StageState>(std::move(state))});
    progress_.saved();
  }

  void note_waiting(const StageAction& action) {
    const bool input =
        action.kind == StageAction::Kind::wait_input || action.kind == StageAction::Kind::wait_targets;
    const bool output =
        action.kind == StageAction::Kind::wait_output || action.kind == StageAction::Kind::wait_checkpoint;
    if (input || output) {
      if (!waiting_) waiting_ = Waiting{input, action.position, now()};
      return;
    }
    if (!waiting_) return;
    add_span(waiting_->input ? TraceSpan::Kind::wait_input : TraceSpan::Kind::wait_output, waiting_->position,
             waiting_->since, now());
    waiting_.reset();
  }

  void account_for(TraceSpan::Kind kind, const BatchPosition& position, Clock::duration begin) {
    const auto end = now();
    tally_.add_busy(end - begin);
    add_span(kind, position, begin, end);
  }

  void add_span(TraceSpan::Kind kind, const BatchPosition& position, Clock::duration begin,
                Clock::duration end) {
    spans_.push_back({kind, setup_.stage, setup_.incarnation, position, begin, end});
    if (spans_.size() >= spans_kept_max) flush_spans();
  }

  void flush_spans() {
    if (spans_.empty() || !setup_.recorder) return;
    send(setup_.recorder, spans_atom::value, std::exchange(spans_, {}));
  }

  struct Waiting {
    bool input = false;
    BatchPosition position;
    Clock::duration since{0};
  };

  StageWorkerSetup setup_;
  StageProgressCore progress_;
  std::unique_ptr<StageBackend> backend_;
  JointBackend* joint_ = nullptr;                  // the backend, if it can do several at once
  std::deque<Entry> entries_;                      // received, and not forwarded yet
  bool heard_entry_ = false;                       // in this life
  bool gathering_ = false;                         // the buffer has been asked what waits
  std::map<BatchPosition, at::Tensor> gradients_;  // received, and without their backward yet
  CalibrationTargets targets_;                     // given by the coordinator, until the fit
  WindowTally tally_;
  std::vector<TraceSpan> spans_;
  std::optional<Waiting> waiting_;
};

}  // namespace

StageWorkerActor spawn_stage_worker(caf::local_actor& parent, const StageWorkerSetup& setup) {
  StageWorkerActor worker;
  if (setup.own_thread) {
    worker = parent.spawn<StageWorker, caf::monitored + caf::detached>(parent.address(), setup);
  } else {
    worker = parent.spawn<StageWorker, caf::monitored>(parent.address(), setup);
  }
  caf::anon_send(worker, start_atom::value);
  return worker;
}

}  // namespace zerolock
