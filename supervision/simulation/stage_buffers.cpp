#include "supervision/simulation/stage_buffers.hpp"

#include "supervision/simulation/stage.hpp"

namespace zerolock::simulation {

// -- inbound

void InboundActor::connect(std::uint64_t session) {
  session_ = session;
  if (core_) open();
}

void InboundActor::entry(std::uint64_t session, const Entry& given) {
  cluster_.flow_arrived(stage_.index(), session, given.bytes());
  if (!core_) return;
  Entry entry = given;
  if (cluster_.mutated(Mutation::gap_accepted) && entry.position > core_->next_expected()) {
    entry.position = core_->next_expected();
  }
  const Reception reception = core_->receive(session, entry);
  if (reception == Reception::over_bound) throw Violation("bounded: an upstream does not keep to its credit");
  if (reception == Reception::accepted) {
    cluster_.checker.received(stage_.index(), session, session_, entry);
    blocked_.reset();
  } else {
    cluster_.log.note(name_of(stage_.index()) + " drops " + to_string(entry.position) + ", " +
                      std::string(to_string(reception)));
  }
  serve();
  announce_credit();
}

void InboundActor::blocked(const BatchPosition& position, std::uint64_t bytes) {
  blocked_ = {position, bytes};
  announce_credit();
  fail_if_blocked();
}

void InboundActor::take(Incarnation life) {
  if (life != worker_) return;
  ++demanded_;
  serve();
}

void InboundActor::tell_what_waits(Incarnation life) {
  if (life == worker_) stage_.gathered(worker_);
}

void InboundActor::rewind(const WindowsDone& committed, Incarnation life) {
  worker_ = life;
  demanded_ = 0;
  if (core_) {
    core_->rewind(committed);
    return;
  }
  setup_.durable = committed;
  core_.emplace(setup_);
  if (session_ != 0) open();
}

void InboundActor::durable(WindowIndex window) {
  if (!core_) return;
  core_->made_durable(window);
  cluster_.checker.inbound_kept(stage_.index(), *core_, machine_.disk);
  announce_credit();
  fail_if_blocked();
}

void InboundActor::open() {
  core_->open_session(session_);
  announced_ = {};
  stage_.ports().hello(stage_.index(), session_, core_->next_expected());
  announce_credit();
}

void InboundActor::serve() {
  if (!core_) return;
  for (; demanded_ > 0; --demanded_) {
    const Entry* entry = core_->take();
    if (entry == nullptr) return;
    stage_.give(worker_, *entry);
    announce_credit();
  }
}

void InboundActor::announce_credit() {
  if (session_ == 0 || !core_ || core_->credit() == announced_) return;
  if (!blocked_ && !core_->worth_announcing(announced_)) return;
  announced_ = core_->credit();
  EntryCredit credit = announced_;
  if (cluster_.mutated(Mutation::credit_beyond_bound))
    credit = {credit.entries_total + 2, credit.bytes_total + 48};
  stage_.ports().credit(stage_.index(), session_, credit);
}

void InboundActor::fail_if_blocked() {
  if (!core_ || !blocked_ || !core_->blocked_for_good(blocked_->first, blocked_->second)) return;
  throw Violation("bounded: the inbound buffer of " + name_of(stage_.index()) + " is blocked for good");
}

// -- outbound

void OutboundActor::hello(std::uint64_t session, const BatchPosition& first_lacking) {
  if (session < session_ && !cluster_.mutated(Mutation::no_session_fencing)) return;
  cluster_.checker.session_opened(stage_.index().next(), session, session_);
  cluster_.log.note("session " + std::to_string(session) + " into " + name_of(stage_.index().next()) +
                    " asks for " + to_string(first_lacking));
  session_ = session;
  blocked_.reset();
  if (!core_.next()) born_ = first_lacking;
  if (!core_.resume(first_lacking)) {
    cluster_.checker.outbound_lacks(stage_.index(), first_lacking, born_);
    stage_.fail(ChildKind::outbound, "the next stage lacks " + to_string(first_lacking));
    return;
  }
  if (asked_) stage_.lacked(*asked_, *core_.next());
  asked_.reset();
  tell_worker();
}

void OutboundActor::credit(std::uint64_t session, const EntryCredit& credit) {
  if (session != session_) return;
  core_.credit(credit);
  push();
  tell_worker();
}

void OutboundActor::put(const Entry& entry) {
  if (!core_.put(entry)) {
    throw Violation("bounded: the outbound buffer of " + name_of(stage_.index()) + " has no room");
  }
  push();
  tell_worker();
}

void OutboundActor::attach() {
  attached_ = true;
  tell_worker();
}

void OutboundActor::line(WindowIndex line) {
  core_.recovery_line(line);
  cluster_.checker.outbound_kept(stage_.index(), core_, born_);
  tell_worker();
}

void OutboundActor::ask(std::uint64_t attempt) {
  if (core_.next()) {
    stage_.lacked(attempt, *core_.next());
  } else {
    asked_ = attempt;
  }
}

void OutboundActor::push() {
  while (const Entry* entry = core_.next_to_send()) stage_.ports().entry(stage_.index(), session_, *entry);
  cluster_.checker.outbound_kept(stage_.index(), core_, born_);
  const Entry* lacking = core_.lacking_bytes();
  if (lacking == nullptr || blocked_ == lacking->position) return;
  blocked_ = lacking->position;
  stage_.ports().blocked(stage_.index(), session_, lacking->position, lacking->bytes());
}

void OutboundActor::tell_worker() {
  if (attached_ && core_.next()) stage_.allow(core_.allowance());
}

}  // namespace zerolock::simulation
