#include "supervision/executor_roll_call.hpp"

#include <algorithm>
#include <utility>

#include "actors/deadlines.hpp"
#include "supervision/boundary_entrance.hpp"
#include "supervision/cluster_plan.hpp"

namespace zerolock {

ExecutorRollCall::ExecutorRollCall(RollCallOptions options)
    : options_(std::move(options)),
      board_(
          std::make_shared<StatusBoard>("", std::vector<LayerRange>{}, WindowIndex{0}, options_.executors)),
      status_(board_),
      network_(std::make_unique<Network>()) {
  ListenEvents events;
  events.hello = [this](const Hello& hello) { return answer(hello); };
  events.accepted = [this](std::shared_ptr<Connection> connection, const Hello& hello) {
    accepted(connection, hello);
  };
  events.rejected = options_.note;
  listener_ = network_->listen(listen_options(options_.listen, options_.security, options_.token,
                                              {NodeRole::coordinator, options_.name}, ""),
                               std::move(events));
}

/// The network goes first: its events refer to all else.
ExecutorRollCall::~ExecutorRollCall() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  listener_.reset();
  network_.reset();
}

std::optional<std::vector<ExecutorCard>> ExecutorRollCall::wait(const std::function<bool()>& stop_requested) {
  std::unique_lock lock(mutex_);
  while (candidates().size() < options_.executors) {
    if (stop_requested()) return std::nullopt;
    joined_.wait_for(lock, deadlines.stop_poll);
  }
  return candidates();
}

std::vector<ExecutorCard> ExecutorRollCall::candidates() const {
  std::vector<ExecutorCard> cards;
  for (const auto& [number, caller] : callers_) {
    if (caller.card && !caller.card->spare) cards.push_back(*caller.card);
  }
  std::sort(cards.begin(), cards.end(),
            [](const ExecutorCard& a, const ExecutorCard& b) { return a.name < b.name; });
  return cards;
}

HelloAnswer ExecutorRollCall::answer(const Hello& hello) const {
  if (const std::string reason = zerolock::refusal_of(hello, ""); !reason.empty()) return Refusal{reason};
  if (hello.purpose == ConnectionPurpose::status) return status_.answer();
  if (hello.node.role != NodeRole::executor) return Refusal{"only executors are let in here"};
  if (hello.purpose == ConnectionPurpose::control) return HelloAccepted{control_options(0)};
  return Refusal{"no run is here yet"};
}

void ExecutorRollCall::accepted(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  if (hello.purpose == ConnectionPurpose::status) {
    status_.serve(connection);
    return;
  }
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++latest_;
    Caller& caller = callers_[number];
    caller.name = hello.node.name;
    caller.connection = connection;
  }
  connection->start({[this, number](const Frame& frame) { on_frame(number, frame); },
                     [this, number](const std::string&) { on_closed(number); }});
}

void ExecutorRollCall::on_frame(std::uint64_t number, const Frame& frame) {
  const std::lock_guard lock(mutex_);
  const auto known = callers_.find(number);
  if (known == callers_.end()) return;
  Caller& caller = known->second;
  try {
    if (frame.type == FrameType::request && !caller.channel.is_open()) {
      open(caller, decode_opening(frame.metadata));
    } else if (!caller.channel.is_open()) {
      throw WireError("the first words of a control connection must be its opening");
    } else {
      // An executor that has nothing to run says no more than that it leaves; its end follows.
      static_cast<void>(caller.channel.received(frame));
    }
  } catch (const WireError& error) {
    caller.connection->close(error.what());
  }
}

void ExecutorRollCall::open(Caller& caller, const ControlOpening& opening) {
  caller.channel.begin(new_conversation());
  const bool opened =
      caller.connection->send(caller.channel.welcome()) && caller.channel.open(caller.connection, 0);
  if (!opened) throw WireError("the executor takes no answer");
  if (const std::string refusal = refusal_of(caller, opening); !refusal.empty()) {
    caller.channel.send(control::RunOver{refusal, !opening.running.empty()});
    return;
  }
  caller.card = opening.card;
  caller.card->name = caller.name;
  board_->joined(*caller.card);
  if (caller.card->spare) {
    board_->assigned(caller.name, {});
    options_.note("executor " + caller.name + " has joined, stands by as a spare");
  } else {
    options_.note("executor " + caller.name + " has joined (" + std::to_string(candidates().size()) + " of " +
                  std::to_string(options_.executors) + ")");
  }
  joined_.notify_all();
}

std::string ExecutorRollCall::refusal_of(const Caller& caller, const ControlOpening& opening) {
  if (!opening.running.empty()) return "the coordinator plans another run";
  for (auto& [number, other] : callers_) {
    if (&other == &caller || !other.card || other.name != caller.name) continue;
    if (other.card->placement > opening.card.placement) {
      return "executor " + caller.name + " " + describe(Admission::earlier_placement);
    }
    other.connection->close("the executor has connected again");
    other.card.reset();
  }
  return {};
}

void ExecutorRollCall::on_closed(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto known = callers_.find(number);
  if (known == callers_.end()) return;
  known->second.channel.lost();
  if (known->second.card && !ending_) {
    board_->left(known->second.name);
    options_.note("executor " + known->second.name + " is gone");
  }
  callers_.erase(known);
}

}  // namespace zerolock
