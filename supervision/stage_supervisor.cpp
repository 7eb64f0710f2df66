#include "supervision/stage_supervisor.hpp"

#include <algorithm>
#include <optional>

#include "actors/checkpoint_keeper.hpp"
#include "actors/core/stage_recovery_core.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/hidden_state_buffer.hpp"
#include "actors/outbound_buffer.hpp"
#include "actors/stage_worker.hpp"
#include "supervision/children.hpp"

namespace zerolock {
namespace {

/// From left to right: each depends on those before it. The two buffers stand and fall together, since a new
/// outbound buffer may need windows made again whose inputs the old inbound buffer has released.
enum Child : std::size_t { inbound_child, outbound_child, keeper_child, worker_child, child_count };

using queues_atom = caf::atom_constant<caf::atom("queues")>;  // to itself: look at the buffers

using Type = StageSupervisorActor::extend<caf::reacts_to<tick_atom>, caf::reacts_to<queues_atom>>;

class StageSupervisor final : public Type::base {
 public:
  StageSupervisor(caf::actor_config& config, caf::actor_addr parent,
                  std::shared_ptr<const StageCommons> commons, StageSupervisorSetup setup)
      : Type::base(config),
        parent_(parent),
        commons_(std::move(commons)),
        setup_(std::move(setup)),
        policy_(commons_->intensity),
        recovery_({commons_->first_window, commons_->calibrates, !last_stage(), setup_.fresh,
                   setup_.incarnation_before}) {
    if (!setup_.fresh) cause_ = "its executor was lost";
    contain_failures(this);
    monitor(parent);
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](caf::exit_msg&) { close(caf::exit_reason::user_shutdown); });
  }

  [[nodiscard]] const char* name() const override { return "stage supervisor"; }

  behavior_type make_behavior() override {
    return {[this](line_atom, WindowIndex line) {
              recovery_.line(line);
              if (outbound_) send(outbound_, line_atom::value, *recovery_.line());
              if (keeper_) send(keeper_, line_atom::value, *recovery_.line());
            },
            [this](end_at_atom, WindowIndex window) {
              end_at_ = window;
              if (worker_) send(worker_, end_at_atom::value, window);
            },
            [this](summary_atom) { return summarise(); },
            [this](durable_atom, WindowIndex window) {
              // A keeper that is gone may still be heard; what it wrote is found on the disk.
              if (keeper_ && caf::actor_cast<caf::actor_addr>(current_sender()) == keeper_.address()) {
                note_durable(window);
              }
            },
            [this](start_atom) {
              send(commons_->scheduler, attach_atom::value, setup_.stage,
                   StageControlActor{caf::actor_cast<StageControlActor>(this)});
              start_from(inbound_child);
              if (commons_->own_threads) look_again();
              if (commons_->report_queues) delayed_send(this, deadlines.queues_interval, queues_atom::value);
            },
            [this](restart_atom) {
              if (!closing_ && children_.stopped()) start_from(children_.stop_target());
            },
            [this](tick_atom) { look_at_compute(); },
            [this](queues_atom) { look_at_queues(); }};
  }

  void on_exit() override {
    watch_.reset();
    children_.clear();
    forget_from(inbound_child);
    setup_ = {};
    commons_.reset();
  }

 private:
  [[nodiscard]] bool last_stage() const { return setup_.stage.value + 1 == commons_->stages; }

  [[nodiscard]] bool restores_alone() const { return restores_stages_alone(commons_->schedule); }

  [[nodiscard]] CheckpointSchedule checkpoints() const {
    CheckpointSchedule schedule = commons_->checkpoints;
    if (end_at_) schedule.last = *end_at_;
    return schedule;
  }

  // -- starting
  // ----------------------------------------------------------------------------------------------------

  void start_from(std::size_t first) {
    if (first <= inbound_child) start_buffers();
    if (first <= keeper_child) start_keeper();
    carry_out(recovery_.begin());
  }

  void start_buffers() {
    inbound_ = spawn_hidden_state_buffer(
        *this, {setup_.stage, recovery_.initial(), commons_->depth, commons_->buffer_bytes_max, checkpoints(),
                commons_->micro_batches, restores_alone()});
    children_.started(inbound_child, caf::actor_cast<caf::actor>(inbound_));
    if (!last_stage()) {
      outbound_ = spawn_outbound_buffer(*this, {setup_.stage, recovery_.line(), commons_->buffer_bytes_max,
                                                commons_->micro_batches, restores_alone()});
      children_.started(outbound_child, caf::actor_cast<caf::actor>(outbound_));
    }
    send(setup_.executor, ports_atom::value, setup_.stage, inbound_,
         outbound_ ? UpstreamActor{outbound_} : UpstreamActor{});
  }

  void start_keeper() {
    const WindowIndex before_first{commons_->first_window.value - 1};
    keeper_ = spawn_checkpoint_keeper(
        *this, {setup_.stage, commons_->checkpoint_root, before_first, recovery_.disk_is_foreign(),
                commons_->own_threads, commons_->run_start, commons_->fault,
                DurabilityOwnerActor{caf::actor_cast<DurabilityOwnerActor>(this)}, commons_->recorder});
    children_.started(keeper_child, caf::actor_cast<caf::actor>(keeper_));
  }

  /// A new life of the worker: how far back the outputs must reach, the state, the inputs, the worker.
  void carry_out(const RecoveryOrder& order) {
    using Kind = RecoveryOrder::Kind;
    switch (order.kind) {
      case Kind::ask_downstream:
        ask_downstream(order.attempt);
        return;
      case Kind::restore:
        restore(order);
        return;
      case Kind::begin_anew:
        start_worker(setup_.initial, recovery_.initial(), true);
        return;
      case Kind::restart_all:
        restart_from(inbound_child, std::chrono::nanoseconds{0});
        return;
      case Kind::nothing:
      case Kind::go_on:    // together with the state: on_restored
      case Kind::give_up:  // together with the reason: on_not_restored
        return;
    }
  }

  void ask_downstream(std::uint64_t attempt) {
    request(outbound_, deadlines.connect, lacks_atom::value)
        .then([this, attempt](
                  const BatchPosition& lacks) { carry_out(recovery_.downstream_lacks(attempt, lacks)); },
              [this, attempt](caf::error& error) {
                if (recovery_.current(attempt))
                  answer_missing(outbound_child, "the next stage did not connect", error);
              });
  }

  void restore(const RecoveryOrder& order) {
    // The keeper answers after all that it was given to save, and has said what became durable by then.
    const std::uint64_t attempt = order.attempt;
    request(keeper_, deadlines.restore, restore_atom::value, order.window)
        .then([this, attempt](const RestoredState& restored) { on_restored(attempt, restored); },
              [this, attempt](caf::error& error) { on_not_restored(attempt, error); });
  }

  void on_restored(std::uint64_t attempt, const RestoredState& restored) {
    const RecoveryOrder order = recovery_.restored(attempt, restored.shared.state->window);
    if (order.kind != RecoveryOrder::Kind::go_on) {
      carry_out(order);
      return;
    }
    for (const std::string& problem : restored.problems) {
      cause_ += "; passed over a bad checkpoint: " + problem;
    }
    note_durable(order.window);
    start_worker(restored.shared, order.window, false);
  }

  void on_not_restored(std::uint64_t attempt, const caf::error& error) {
    if (!recovery_.current(attempt)) return;
    if (is_permanent(error)) {
      const RecoveryOrder order = recovery_.none_good(attempt);
      if (order.kind != RecoveryOrder::Kind::give_up) {
        carry_out(order);
        return;
      }
    }
    answer_missing(keeper_child, "no state was restored", error);
  }

  void start_worker(const SharedState& state, const WindowsDone& committed, bool save_first) {
    const Incarnation incarnation = recovery_.began(committed);
    send(inbound_, rewind_atom::value, committed, incarnation);
    StageWorkerSetup worker;
    worker.stage = setup_.stage;
    worker.incarnation = incarnation;
    worker.state = state;
    worker.progress.committed = committed;
    worker.progress.save_first = save_first;
    worker.progress.has_downstream = !last_stage();
    worker.progress.checkpoints = checkpoints();
    worker.progress.micro_batches = commons_->micro_batches;
    worker.progress.schedule = window_schedule(commons_->schedule, setup_.stage, commons_->stages);
    worker.progress.gradients_return = !restores_alone();
    worker.progress.output_bytes_max = commons_->buffer_bytes_max;
    if (incarnation.value > 1) worker.progress.replay_batch = commons_->replay_batch;
    worker.own_thread = commons_->own_threads;
    worker.run_start = commons_->run_start;
    worker.make_backend = setup_.make_backend;
    worker.account = setup_.account;
    worker.fault = commons_->fault;
    worker.watch = watch_ = std::make_shared<ComputeWatch>(commons_->compute_limits);
    worker.inbound = inbound_;
    worker.outbound = outbound_;
    worker.keeper = keeper_;
    worker.scheduler = commons_->scheduler;
    worker.targets = commons_->targets;
    worker.recorder = commons_->recorder;
    worker_ = spawn_stage_worker(*this, worker);
    children_.started(worker_child, caf::actor_cast<caf::actor>(worker_));
    if (incarnation.value > 1) {
      send(commons_->recorder, restart_atom::value,
           StageRestart{setup_.stage, incarnation, committed, cause_});
    }
  }

  void note_durable(WindowIndex window) {
    // Said again even if it is known: a new life of buffer and worker may not have heard it.
    recovery_.durable(window);
    send(inbound_, durable_atom::value, window);
    if (worker_) send(worker_, durable_atom::value, window);
    send(commons_->scheduler, durable_atom::value, setup_.stage, window);
    if (commons_->calibrates) send(commons_->recorder, calibrated_atom::value, setup_.stage);
  }

  // -- failing
  // -----------------------------------------------------------------------------------------------------

  void on_down(const caf::down_msg& down) {
    if (down.source == parent_) {
      quit(caf::exit_reason::user_shutdown);  // the children see this supervisor go, and follow
      return;
    }
    const auto child = children_.find(down.source);
    if (!child) return;
    const bool expected = children_.down(*child);
    forget_from(*child, *child + 1);
    if (!expected && !closing_) {
      failed(*child, down.reason);
    } else {
      continue_stop();
    }
  }

  // -- hanging

  [[nodiscard]] std::chrono::nanoseconds look_interval() const {
    return std::clamp<std::chrono::nanoseconds>(commons_->compute_limits.floor / 10,
                                                std::chrono::milliseconds(10), std::chrono::seconds(1));
  }

  void look_again() {
    looked_ = ComputeWatch::Clock::now();
    delayed_send(this, look_interval(), tick_atom::value);
  }

  /// A thread that hangs cannot be ended, so no restart can help here, and nothing waits for it: its process
  /// has to be replaced.
  void look_at_compute() {
    // Who is looked at late stood still with the whole process.
    const auto late = ComputeWatch::Clock::now() - looked_ - look_interval();
    if (watch_ && late > look_interval()) watch_->paused(late);
    const auto overdue = watch_ ? watch_->overdue() : std::nullopt;
    if (!overdue) return look_again();
    commons_->hangs->store(true);
    quit(make_failure(Failure::permanent,
                      "stage " + std::to_string(setup_.stage.value) + " hangs at " + *overdue));
  }

  // -- what stands in the buffers

  void look_at_queues() {
    delayed_send(this, deadlines.queues_interval, queues_atom::value);
    if (!inbound_) return;
    request(inbound_, deadlines.buffer_summary, summary_atom::value)
        .then([this](const InboundStatistics& inbound) { look_at_outbound(inbound); },
              [](caf::error&) {});  // it is gone: there is another one at the next look
  }

  void look_at_outbound(const InboundStatistics& inbound) {
    StageQueues queues{setup_.stage, inbound.waiting_entries, inbound.held_entries};
    if (!outbound_) {
      report_queues(queues);
      return;
    }
    request(outbound_, deadlines.buffer_summary, summary_atom::value)
        .then(
            [this, queues](const OutboundStatistics& outbound) mutable {
              queues.outbound_unsent = outbound.unsent_entries;
              queues.outbound_held = outbound.held_entries;
              report_queues(queues);
            },
            [](caf::error&) {});
  }

  void report_queues(const StageQueues& queues) {
    if (closing_ || queues_told_ == queues) return;
    queues_told_ = queues;
    commons_->report_queues(queues);
  }

  /// A request ended without its answer. If the other side is gone, its end is reported anyway.
  void answer_missing(Child child, const std::string& what, const caf::error& error) {
    if (closing_ || !children_.running(child)) return;
    if (is_permanent(error) || error == caf::sec::request_timeout) {
      failed(child, make_failure(is_permanent(error) ? Failure::permanent : Failure::transient,
                                 what + " because " + cause_of(error)));
    }
  }

  void failed(std::size_t child, const caf::error& reason) {
    const std::string stage = "stage " + std::to_string(setup_.stage.value);
    if (is_bad_input(reason)) {
      close(reason);
      return;
    }
    cause_ = cause_of(reason);
    if (is_permanent(reason)) {
      close(make_failure(Failure::permanent, stage + " failed because " + cause_));
      return;
    }
    if (!restores_alone()) {
      close(make_failure(Failure::permanent, stage + " failed because " + cause_ + ", and the schedule " +
                                                 std::string(to_string(commons_->schedule)) +
                                                 " cannot restore one stage alone"));
      return;
    }
    const auto delay = policy_.failed(clock().now().time_since_epoch());
    if (!delay) {
      const auto period = std::chrono::duration_cast<std::chrono::seconds>(policy_.intensity().period);
      close(make_failure(Failure::permanent, stage + " failed " + std::to_string(policy_.recent_failures()) +
                                                 " times within " + std::to_string(period.count()) +
                                                 " s, the last time because " + cause_));
      return;
    }
    restart_from(child <= outbound_child ? inbound_child : static_cast<Child>(child), *delay);
  }

  /// Stops the child and all that depend on it, waits until they are gone (a thread that computes cannot be
  /// cut short, and its processor is not free before), and starts them again.
  void restart_from(Child child, std::chrono::nanoseconds delay) {
    recovery_.interrupted(child == inbound_child);
    restart_delay_ = std::max(restart_delay_, delay);
    children_.stop_from(child);
    continue_stop();
  }

  void continue_stop() {
    if (!children_.continue_stop(this)) return;
    if (closing_) {
      quit(*closing_);
    } else if (restart_delay_ == std::chrono::nanoseconds{0}) {
      send(this, restart_atom::value);
    } else {
      delayed_send(this, std::exchange(restart_delay_, std::chrono::nanoseconds{0}), restart_atom::value);
    }
  }

  void close(const caf::error& reason) {
    if (closing_) return;
    closing_ = reason;
    recovery_.interrupted(true);
    children_.stop_from(inbound_child);
    continue_stop();
  }

  void forget_from(std::size_t first, std::size_t last = child_count) {
    if (first <= inbound_child && inbound_child < last) inbound_ = nullptr;
    if (first <= outbound_child && outbound_child < last) outbound_ = nullptr;
    if (first <= keeper_child && keeper_child < last) keeper_ = nullptr;
    if (first <= worker_child && worker_child < last) {
      worker_ = nullptr;
      watch_.reset();
    }
  }

  caf::result<StageSummary> summarise() {
    if (!inbound_) return make_failure(Failure::transient, "the stage is restarting");
    auto promise = make_response_promise<StageSummary>();
    request(inbound_, deadlines.buffer_summary, summary_atom::value)
        .then(
            [this, promise](const InboundStatistics& seen) mutable {
              promise.deliver(StageSummary{setup_.stage, recovery_.incarnation(), seen.dropped,
                                           setup_.account->peaks(), 0});
            },
            [promise](caf::error& error) mutable { promise.deliver(error); });
    return promise;
  }

  caf::actor_addr parent_;
  std::shared_ptr<const StageCommons> commons_;
  StageSupervisorSetup setup_;
  RestartPolicy policy_;
  Children children_{child_count};
  HiddenStateBufferActor inbound_;
  OutboundBufferActor outbound_;  // none for the last stage
  CheckpointKeeperActor keeper_;
  StageWorkerActor worker_;

  StageRecoveryCore recovery_;
  std::shared_ptr<ComputeWatch> watch_;  // of the worker's life
  ComputeWatch::Clock::time_point looked_;
  std::optional<WindowIndex> end_at_;
  std::optional<StageQueues> queues_told_;
  std::chrono::nanoseconds restart_delay_{0};
  std::string cause_;                  // of the latest failure
  std::optional<caf::error> closing_;  // the reason with which it will end
};

}  // namespace

StageSupervisorActor spawn_stage_supervisor(caf::local_actor& parent,
                                            std::shared_ptr<const StageCommons> commons,
                                            StageSupervisorSetup setup) {
  auto supervisor =
      parent.spawn<StageSupervisor, caf::monitored>(parent.address(), std::move(commons), std::move(setup));
  caf::anon_send(supervisor, start_atom::value);
  return supervisor;
}

}  // namespace zerolock
