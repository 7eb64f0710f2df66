#include "supervision/simulation/stage_worker.hpp"

#include <utility>

#include "supervision/simulation/faults.hpp"
#include "supervision/simulation/stage.hpp"

namespace zerolock::simulation {

WorkerActor::WorkerActor(Cluster& cluster, Machine& machine, Stage& stage, StageProgressSetup setup,
                         Incarnation incarnation, const StageNumbers& numbers)
    : Child(cluster, machine),
      stage_(stage),
      progress_(std::move(setup)),
      incarnation_(incarnation),
      numbers_(numbers) {}

void WorkerActor::receive(std::function<void()> word) {
  if (busy_) {
    waiting_.push_back(std::move(word));
    return;
  }
  word();
  if (alive()) work();
}

void WorkerActor::start() {
  receive([this] { stage_.report_committed(incarnation_, *progress_.committed()); });
}

void WorkerActor::entry(const Entry& entry) {
  receive([this, entry] {
    inputs_.push_back(entry);
    progress_.received(entry.position, entry.layout->rows());
    if (fault_at(FaultPoint::entry_received, entry.position)) return;
    heard_entry_ = true;
    if (progress_.replays()) gather();
  });
}

void WorkerActor::gather() {
  if (!std::exchange(gathering_, true)) stage_.ask_what_waits(incarnation_);
}

void WorkerActor::gathered() {
  receive([this] {
    gathering_ = false;
    if (inputs_.empty()) progress_.caught_up();
  });
}

void WorkerActor::allowance(const OutputAllowance& allowance) {
  receive([this, allowance] { progress_.allowance(allowance); });
}

void WorkerActor::durable(WindowIndex window) {
  receive([this, window] { progress_.made_durable(window); });
}

void WorkerActor::end_at(WindowIndex window) {
  receive([this, window] { progress_.end_at(window); });
}

void WorkerActor::work() {
  while (!busy_ && !gathering_ && alive() && carry_out(progress_.next())) {
  }
}

/// Returns false when there is nothing to do but wait.
bool WorkerActor::carry_out(const StageAction& action) {
  using Kind = StageAction::Kind;
  const Time forward = cluster_.scenario.forward;
  switch (action.kind) {
    case Kind::take:
      stage_.ask_for_entry(incarnation_);
      progress_.asked();
      return true;
    case Kind::forward:
      if (action.together > 1) progress_.begins_together(action.together);
      if (!fault_at(FaultPoint::forward_begin, action.position)) {
        compute(action, forward * static_cast<std::int64_t>(action.together));
      }
      return false;
    case Kind::backward:
      cluster_.checker.backward_begins(stage_.index(), action.position, !late_);
      compute(action, 2 * forward * static_cast<std::int64_t>(action.together));
      return false;
    case Kind::wait_input:
      if (progress_.replays() && heard_entry_) gather();
      return false;
    case Kind::step:
      compute(action, forward);
      return false;
    case Kind::checkpoint:
      stage_.save(action.position.window, numbers_.state);
      progress_.saved();
      return true;
    case Kind::blocked:
      throw Violation("bounded: " + name_of(stage_.index()) + " has no room for the output of " +
                      to_string(action.position));
    default:
      return false;
  }
}

void WorkerActor::compute(const StageAction& action, Time duration) {
  busy_ = true;
  busy_until_ = cluster_.timeline.now() + cluster_.jitter(duration) * machine_.slowness;
  cluster_.timeline.at(busy_until_, machine_.host, life_, [this, action] {
    busy_ = false;
    computed(action);
    while (alive() && !busy_ && !waiting_.empty()) {
      const auto word = std::move(waiting_.front());
      waiting_.pop_front();
      receive(word);
    }
    if (alive()) work();
  });
}

void WorkerActor::computed(const StageAction& action) {
  switch (action.kind) {
    case StageAction::Kind::forward:
      forward(action);
      return;
    case StageAction::Kind::backward:
      backward(action);
      return;
    default:
      step(action.position.window);
  }
}

void WorkerActor::forward(const StageAction& action) {
  forward_one(action);
  for (std::uint64_t i = 1; i < action.together && alive(); ++i) forward_one(progress_.due());
}

void WorkerActor::backward(const StageAction& action) {
  BatchPosition position = action.position;
  for (std::uint64_t i = 0; i < action.together && alive(); ++i) {
    add_gradient(numbers_, trained_.front());
    trained_.pop_front();
    if (late_) send_on(*std::exchange(late_, std::nullopt));
    if (!fault_at(FaultPoint::backward, position)) progress_.trained();
    position = position_after(position, cluster_.scenario.micro_batch_count());
  }
}

void WorkerActor::forward_one(const StageAction& action) {
  if (fault_at(FaultPoint::forward_end, action.position)) return;
  const Entry input = inputs_.front();
  trained_.push_back(value_of(input));
  const std::uint64_t value = forward_value(numbers_.state, trained_.back());
  cluster_.checker.forwarded(stage_.index(), action.position, value);
  const Entry output =
      make_entry(action.position, incarnation_, value, static_cast<std::uint64_t>(input.layout->rows()));
  if (action.emit && cluster_.mutated(Mutation::backward_before_send)) {
    late_ = output;
  } else if (action.emit) {
    send_on(output);
  }
  progress_.forwarded(output.bytes());
  inputs_.pop_front();
  (void)fault_at(FaultPoint::entry_sent, action.position);
}

void WorkerActor::send_on(const Entry& entry) {
  stage_.put(entry);
}

void WorkerActor::step(WindowIndex window) {
  const StageNumbers before = numbers_;
  apply_step(numbers_, window);
  const bool replay = incarnation_.value > 1 && !std::exchange(stepped_, true);
  if (replay && cluster_.mutated(Mutation::double_step)) {
    numbers_.gradient = before.gradient;
    apply_step(numbers_, window);
  }
  cluster_.checker.stepped(stage_.index(), window, numbers_.state);
  if (fault_at(FaultPoint::step, {window, 0})) return;
  progress_.stepped();
  stage_.report_committed(incarnation_, window);
}

bool WorkerActor::fault_at(FaultPoint point, const BatchPosition& position) {
  cluster_.faults->reached(stage_, point, position, ChildKind::worker);
  return !alive();
}

// -- keeper

void KeeperActor::save(WindowIndex window, std::uint64_t value) {
  enqueue([this, window, value] { write(window, value); });
}

void KeeperActor::restore(std::uint64_t attempt, WindowIndex at_most) {
  enqueue([this, attempt, at_most] {
    cluster_.timeline.after(
        cluster_.jitter(cluster_.scenario.disk_write), machine_.host, life_, [this, attempt, at_most] {
          const bool trusting = cluster_.mutated(Mutation::torn_checkpoint_trusted);
          const CheckpointDisk::Restored restored = machine_.disk.restore(stage_.index(), at_most, trusting);
          for (const WindowIndex bad : restored.bad) cluster_.checker.damaged(stage_.index(), bad);
          stage_.restored(attempt, restored.found);
          next();
        });
  });
}

void KeeperActor::retire(WindowIndex line) {
  enqueue([this, line] {
    machine_.disk.retire(stage_.index(), line);
    next();
  });
}

void KeeperActor::enqueue(std::function<void()> job) {
  jobs_.push_back(std::move(job));
  if (!busy_) next();
}

void KeeperActor::next() {
  busy_ = !jobs_.empty();
  if (!busy_) return;
  const auto job = std::move(jobs_.front());
  jobs_.pop_front();
  job();
}

void KeeperActor::then(std::function<void()> part) {
  cluster_.timeline.after(cluster_.jitter(cluster_.scenario.disk_write) * machine_.slowness, machine_.host,
                          life_, [this, part = std::move(part)] {
                            if (machine_.disk.full) {
                              cluster_.checker.disturbed(stage_.index(), "its disk is full");
                              stage_.fail(ChildKind::keeper, "the disk is full");
                            } else {
                              part();
                            }
                          });
}

void KeeperActor::write(WindowIndex window, std::uint64_t value) {
  const StageIndex stage = stage_.index();
  machine_.disk.begin_write(stage, window, value);
  then([this, stage, window, value] {
    if (fault_at(FaultPoint::checkpoint_temp, window)) return;
    machine_.disk.rename(stage, window);
    then([this, stage, window, value] {
      if (fault_at(FaultPoint::checkpoint_rename, window)) return;
      machine_.disk.begin_manifest(stage, window);
      then([this, stage, window, value] {
        machine_.disk.complete(stage, window);
        if (fault_at(FaultPoint::manifest, window)) return;
        if (fault_at(FaultPoint::durable_ack, window)) return;
        stage_.saved(window, value);
        next();
      });
    });
  });
}

bool KeeperActor::fault_at(FaultPoint point, WindowIndex window) {
  cluster_.faults->reached(stage_, point, {window, 0}, ChildKind::keeper);
  return !alive();
}

}  // namespace zerolock::simulation
