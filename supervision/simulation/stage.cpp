#include "supervision/simulation/stage.hpp"

#include <algorithm>
#include <utility>

namespace zerolock::simulation {

std::string_view to_string(ChildKind kind) {
  switch (kind) {
    case ChildKind::inbound:
      return "inbound buffer";
    case ChildKind::outbound:
      return "outbound buffer";
    case ChildKind::keeper:
      return "checkpoint keeper";
    case ChildKind::worker:
      return "worker";
  }
  return "unknown";
}

Stage::Stage(Cluster& cluster, Machine& machine, StagePorts& ports, const PlacedStage& placed,
             WindowIndex line, std::optional<WindowIndex> end_at)
    : cluster_(cluster),
      machine_(machine),
      ports_(ports),
      placed_(placed),
      recovery_({WindowIndex{1}, false, !last_stage(), placed.placement.value == 1,
                 incarnation_before(placed.placement)}),
      first_life_(recovery_.incarnation().next()),
      policy_(cluster.scenario.intensity),
      end_at_(end_at) {
  recovery_.line(line);
}

void Stage::end() {
  life_.reset();
  if (inbound_) inbound_->end();
  if (outbound_) outbound_->end();
  if (keeper_) keeper_->end();
  if (worker_) worker_->end();
}

CheckpointSchedule Stage::checkpoints() const {
  return {cluster_.scenario.checkpoint_every, end_at_.value_or(cluster_.scenario.last_window)};
}

void Stage::tell_self(std::function<void()> word) {
  cluster_.timeline.along(mailbox_, cluster_.jitter(cluster_.scenario.message), machine_.host, life_,
                          std::move(word));
}

// -- starting

void Stage::start() {
  start_from(ChildKind::inbound);
}

void Stage::start_from(ChildKind first) {
  if (first <= ChildKind::inbound) start_buffers();
  if (first <= ChildKind::keeper) {
    if (recovery_.disk_is_foreign()) machine_.disk.discard_after(index(), WindowIndex{0});
    keeper_ = std::make_unique<KeeperActor>(cluster_, machine_, *this);
  }
  carry_out(recovery_.begin());
}

void Stage::start_buffers() {
  const Scenario& scenario = cluster_.scenario;
  inbound_ = std::make_unique<InboundActor>(
      cluster_, machine_, *this,
      HiddenStateBufferSetup{index(), recovery_.initial(), scenario.depth, scenario.buffer_bytes_max,
                             checkpoints(), scenario.micro_batch_count()});
  if (!last_stage()) {
    outbound_ = std::make_unique<OutboundActor>(
        cluster_, machine_, *this,
        OutboundBufferSetup{index(), recovery_.line(), scenario.buffer_bytes_max,
                            scenario.micro_batch_count()});
  }
  ports_.buffers_made(index());
}

void Stage::carry_out(const RecoveryOrder& order) {
  using Kind = RecoveryOrder::Kind;
  switch (order.kind) {
    case Kind::ask_downstream:
      outbound_->tell([child = outbound_.get(), attempt = order.attempt] { child->ask(attempt); });
      return;
    case Kind::restore:
      keeper_->tell([child = keeper_.get(), order] { child->restore(order.attempt, order.window); });
      return;
    case Kind::begin_anew:
      start_worker(WindowIndex{0}, initial_state(index()), true);
      return;
    case Kind::restart_all:
      restart_from(ChildKind::inbound, Time{0});
      return;
    case Kind::give_up:
      throw Violation("no silent damage: " + name_of(index()) + " has no good checkpoint left");
    case Kind::nothing:
    case Kind::go_on:  // together with the state: restored()
      return;
  }
}

void Stage::lacked(std::uint64_t attempt, const BatchPosition& first_lacking) {
  tell_self(
      [this, attempt, first_lacking] { carry_out(recovery_.downstream_lacks(attempt, first_lacking)); });
}

void Stage::restored(std::uint64_t attempt, const std::optional<CheckpointDisk::Found>& found) {
  tell_self([this, attempt, found] {
    const RecoveryOrder order =
        found ? recovery_.restored(attempt, found->window) : recovery_.none_good(attempt);
    if (order.kind != RecoveryOrder::Kind::go_on) {
      carry_out(order);
      return;
    }
    note_durable(order.window, found->value);
    start_worker(order.window, found->value, false);
  });
}

void Stage::start_worker(WindowIndex committed, std::uint64_t state, bool save_first) {
  const Incarnation incarnation = recovery_.began(committed);
  cluster_.log.note(name_of(index()) + " begins life " + std::to_string(incarnation.value) + " on " +
                    machine_.name() + " from window " + std::to_string(committed.value));
  cluster_.checker.life_begins(index(), incarnation, committed, state);
  inbound_->tell([child = inbound_.get(), committed, incarnation] { child->rewind(committed, incarnation); });
  StageProgressSetup setup;
  setup.committed = committed;
  setup.save_first = save_first;
  setup.has_downstream = !last_stage();
  setup.checkpoints = checkpoints();
  setup.micro_batches = cluster_.scenario.micro_batch_count();
  if (incarnation.value > 1) setup.replay_batch = cluster_.scenario.replay_batch;
  const bool keeps = cluster_.mutated(Mutation::half_window_kept);
  const StageNumbers numbers{state, keeps ? kept_gradient_ : 0};
  worker_ = std::make_unique<WorkerActor>(cluster_, machine_, *this, std::move(setup), incarnation, numbers);
  worker_->tell([child = worker_.get()] { child->start(); });
  if (outbound_) outbound_->tell([child = outbound_.get()] { child->attach(); });
}

void Stage::saved(WindowIndex window, std::uint64_t value) {
  // A keeper that is gone may still be heard; what it wrote is found on the disk.
  tell_self([this, keeper = keeper_.get(), window, value] {
    if (keeper_ && keeper_.get() == keeper) note_durable(window, value);
  });
}

void Stage::note_durable(WindowIndex window, std::uint64_t value) {
  recovery_.durable(window);
  durable_ = std::max(durable_, WindowsDone{window});
  inbound_->tell([child = inbound_.get(), window] { child->durable(window); });
  if (worker_) worker_->tell([child = worker_.get(), window] { child->durable(window); });
  ControlWord word{ControlWord::Kind::durable, index(), placement(), {}, window, value, 0, nowhere};
  word.checksum = seal(index(), window, value);
  ports_.report(word);
}

void Stage::line(WindowIndex line) {
  recovery_.line(line);
  const WindowIndex known = *recovery_.line();
  if (outbound_) outbound_->tell([child = outbound_.get(), known] { child->line(known); });
  if (keeper_) keeper_->tell([child = keeper_.get(), known] { child->retire(known); });
}

void Stage::end_at(WindowIndex window) {
  end_at_ = window;
  if (worker_) worker_->tell([child = worker_.get(), window] { child->end_at(window); });
}

// -- failing

void Stage::fail(ChildKind kind, const std::string& cause) {
  const auto end = [](auto& child) { return child && child->alive() ? (child->end(), true) : false; };
  const bool ended = kind == ChildKind::inbound    ? end(inbound_)
                     : kind == ChildKind::outbound ? end(outbound_)
                     : kind == ChildKind::keeper   ? end(keeper_)
                                                   : end(worker_);
  if (!ended) return;
  cluster_.log.note("the " + std::string(to_string(kind)) + " of " + name_of(index()) + " fails: " + cause);
  tell_self([this, kind, cause] { failed(kind, cause); });
}

void Stage::failed(ChildKind kind, const std::string& cause) {
  const auto delay = policy_.failed(cluster_.timeline.now());
  if (!delay) {
    ports_.stage_failed(index(), cause);
    return;
  }
  restart_from(kind <= ChildKind::outbound ? ChildKind::inbound : kind, *delay);
}

/// Children from the target on end, and are started again when they are gone.
void Stage::restart_from(ChildKind target, Time delay) {
  recovery_.interrupted(target == ChildKind::inbound);
  restart_target_ = restart_target_ ? std::min(*restart_target_, target) : target;
  const Time busy = worker_ ? worker_->busy_until() : Time{0};
  restart_at_ =
      std::max({restart_at_, cluster_.timeline.now() + delay + cluster_.scenario.message * 4, busy});
  end_children_from(target);
  cluster_.timeline.at(restart_at_, machine_.host, life_, [this, number = ++restarts_] {
    if (number == restarts_ && restart_target_) start_from(*std::exchange(restart_target_, std::nullopt));
  });
}

void Stage::end_children_from(ChildKind first) {
  if (worker_) kept_gradient_ = worker_->numbers().gradient;
  bury(ChildKind::worker);
  if (first <= ChildKind::keeper) bury(ChildKind::keeper);
  if (first > ChildKind::outbound) return;
  if (outbound_) ports_.outbound_gone(index());
  bury(ChildKind::outbound);
  bury(ChildKind::inbound);
}

/// Ends a child. It may be the one that is speaking.
void Stage::bury(ChildKind kind) {
  const auto end = [this](auto& child) {
    if (!child) return;
    child->end();
    cluster_.graveyard.emplace_back(std::move(child));
  };
  if (kind == ChildKind::inbound) end(inbound_);
  if (kind == ChildKind::outbound) end(outbound_);
  if (kind == ChildKind::keeper) end(keeper_);
  if (kind == ChildKind::worker) end(worker_);
}

// -- between neighbours and children

void Stage::connect_upstream(std::uint64_t session) {
  if (inbound_) inbound_->tell([child = inbound_.get(), session] { child->connect(session); });
}

void Stage::on_entry(std::uint64_t session, const Entry& entry) {
  if (inbound_) inbound_->tell([child = inbound_.get(), session, entry] { child->entry(session, entry); });
}

void Stage::on_blocked(const BatchPosition& position, std::uint64_t bytes) {
  if (inbound_)
    inbound_->tell([child = inbound_.get(), position, bytes] { child->blocked(position, bytes); });
}

void Stage::on_hello(std::uint64_t session, const BatchPosition& first_lacking) {
  if (!outbound_) return;
  outbound_->tell(
      [child = outbound_.get(), session, first_lacking] { child->hello(session, first_lacking); });
}

void Stage::on_credit(std::uint64_t session, const EntryCredit& credit) {
  if (outbound_)
    outbound_->tell([child = outbound_.get(), session, credit] { child->credit(session, credit); });
}

void Stage::give(Incarnation life, const Entry& entry) {
  if (!worker_ || worker_->incarnation() != life) return;
  worker_->tell([child = worker_.get(), entry] { child->entry(entry); });
}

void Stage::allow(const OutputAllowance& allowance) {
  if (worker_) worker_->tell([child = worker_.get(), allowance] { child->allowance(allowance); });
}

void Stage::ask_for_entry(Incarnation life) {
  if (inbound_) inbound_->tell([child = inbound_.get(), life] { child->take(life); });
}

void Stage::ask_what_waits(Incarnation life) {
  if (inbound_) inbound_->tell([child = inbound_.get(), life] { child->tell_what_waits(life); });
}

void Stage::gathered(Incarnation life) {
  if (!worker_ || worker_->incarnation() != life) return;
  worker_->tell([child = worker_.get()] { child->gathered(); });
}

void Stage::put(const Entry& entry) {
  if (outbound_) outbound_->tell([child = outbound_.get(), entry] { child->put(entry); });
}

void Stage::save(WindowIndex window, std::uint64_t value) {
  if (keeper_) keeper_->tell([child = keeper_.get(), window, value] { child->save(window, value); });
}

void Stage::report_committed(Incarnation incarnation, WindowIndex window) {
  committed_ = window;
  ports_.report({ControlWord::Kind::committed, index(), placement(), incarnation, window, 0, 0, nowhere});
  if (cluster_.mutated(Mutation::release_before_durable) && inbound_) {
    inbound_->tell([child = inbound_.get(), window] { child->durable(window); });
  }
}

}  // namespace zerolock::simulation
