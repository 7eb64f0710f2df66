#include "supervision/simulation/executor.hpp"

#include <algorithm>
#include <utility>

#include "supervision/simulation/coordinator.hpp"

namespace zerolock::simulation {

Executor::Executor(Cluster& cluster, Machine& machine, std::uint64_t process)
    : cluster_(cluster), machine_(machine), process_(process), control_policy_(redial_policy()) {}

void Executor::end() {
  life_.reset();
  for (const auto& [index, own] : stages_) own->end();
}

ReconnectPolicy Executor::redial_policy() const {
  using Duration = ReconnectPolicy::Duration;
  return {std::chrono::duration_cast<Duration>(cluster_.scenario.redial_first),
          std::chrono::duration_cast<Duration>(cluster_.scenario.redial_longest)};
}

Stage* Executor::stage(StageIndex index) {
  const auto found = stages_.find(index);
  return found == stages_.end() ? nullptr : found->second.get();
}

// -- the conversation with the coordinator

void Executor::dial_coordinator() {
  const std::uint64_t number = ++control_dial_;
  Coordinator::Hello hello{machine_.number, process_, life_, number, {}, conversation_, stream_.lacking()};
  for (const auto& [index, own] : stages_) {
    hello.running.push_back(
        {{index, own->placement()}, own->incarnation(), own->committed(), own->durable()});
  }
  if (!machine_.partitioned) {
    Cluster& cluster = cluster_;
    cluster_.network.call(cluster_.coordinator_host, cluster_.life, [&cluster, hello] {
      if (cluster.coordinator) cluster.coordinator->admit(hello);
    });
  }
  cluster_.timeline.after(cluster_.scenario.silence_limit, machine_.host, life_, [this, number] {
    if (number == control_dial_ && !control_) retry_coordinator();
  });
}

void Executor::retry_coordinator() {
  control_.reset();
  ++control_dial_;
  cluster_.timeline.after(control_policy_.failed(), machine_.host, life_, [this, number = control_dial_] {
    if (number == control_dial_ && !control_) dial_coordinator();
  });
}

void Executor::welcomed(std::uint64_t number, const ConnectionPointer& connection, std::uint64_t conversation,
                        std::uint64_t lacking) {
  if (number != control_dial_ || control_ || !connection->open()) {
    cluster_.network.close(connection, 0);
    if (number == control_dial_ && !control_) retry_coordinator();
    return;
  }
  control_ = connection;
  control_policy_.succeeded();
  if (conversation != conversation_) {
    conversation_ = conversation;
    for (NumberedMessage& message : stream_.restart()) (void)stream_.push(std::move(message.body));
  }
  if (!stream_.resume(lacking)) throw Violation("exactly once: two sides of a conversation do not fit");
  pump();
}

void Executor::pump() {
  Cluster& cluster = cluster_;
  while (const NumberedMessage* message = stream_.next_to_send()) {
    cluster_.network.send(control_, 0,
                          [&cluster, from = machine_.number, connection = control_, number = message->number,
                           body = message->body] {
                            if (cluster.coordinator) {
                              cluster.coordinator->on_control(from, connection, number, body);
                            }
                          });
  }
}

void Executor::report(const ControlWord& word) {
  if (!stream_.push(word.bytes())) throw Violation("bounded: the coordinator has been away too long");
  pump();
}

void Executor::on_control(const ConnectionPointer& connection, std::uint64_t number,
                          const std::string& body) {
  if (connection != control_) return;
  const auto reception = stream_.received(number);
  if (reception == MessageStreamCore::Reception::gap) {
    throw Violation("exactly once: a word of the coordinator is missing");
  }
  if (reception == MessageStreamCore::Reception::deliver) obey(ControlWord::from(body));
  Cluster& cluster = cluster_;
  cluster_.network.send(connection, 0, [&cluster, from = machine_.number, lacking = stream_.lacking()] {
    if (cluster.coordinator) cluster.coordinator->on_acknowledged(from, lacking);
  });
}

void Executor::obey(const ControlWord& word) {
  using Kind = ControlWord::Kind;
  switch (word.kind) {
    case Kind::checkpoint:
      if (!machine_.disk.good(word.stage, word.window)) {
        machine_.disk.store(word.stage, word.window, {word.value, word.checksum, true});
      }
      return;
    case Kind::assign:
      assign(word);
      return;
    case Kind::upstream:
      upstream_is(word.stage, word.node);
      return;
    case Kind::downstream: {
      BoundaryWay& way = ways_out_[word.stage.next()];
      if (word.placement <= way.placement) return;
      way.placement = word.placement;
      if (way.connection) cluster_.network.close(way.connection, 1);
      way.connection.reset();
      return;
    }
    case Kind::line:
      line_ = std::max(line_, word.window);
      if (word.stage.value != nowhere) {
        if (Stage* own = stage(word.stage)) own->line(word.window);
        return;
      }
      for (const auto& [index, own] : stages_) own->line(word.window);
      return;
    case Kind::end_at:
      end_at_ = word.window;
      for (const auto& [index, own] : stages_) own->end_at(word.window);
      return;
    case Kind::committed:
    case Kind::durable:
      return;
  }
}

void Executor::assign(const ControlWord& word) {
  cluster_.log.note(machine_.name() + " gets placement " + std::to_string(word.placement.value) + " of " +
                    name_of(word.stage));
  line_ = std::max(line_, word.window);
  ways_in_.insert_or_assign(word.stage,
                            InWay{nowhere, nullptr, word.placement.value << 20, 0, redial_policy()});
  auto made = std::make_unique<Stage>(cluster_, machine_, *this, PlacedStage{word.stage, word.placement},
                                      line_, end_at_);
  Stage& own = *made;
  stages_.insert_or_assign(word.stage, std::move(made));
  own.start();
}

void Executor::dismissed() {
  cluster_.log.note(machine_.name() + " is dismissed");
  cluster_.kill_executor(machine_.number, false);
  cluster_.timeline.after(
      cluster_.scenario.redial_first, machine_.host, cluster_.life,
      [&cluster = cluster_, number = machine_.number] { cluster.start_executor(number); });
}

void Executor::stage_failed(StageIndex stage, const std::string& cause) {
  cluster_.log.note(machine_.name() + " fails because " + name_of(stage) + " fails too often: " + cause);
  cluster_.checker.disturbed_executor(machine_.number);
  cluster_.kill_executor(machine_.number, false);
  cluster_.timeline.after(
      5 * cluster_.scenario.redial_longest, machine_.host, cluster_.life,
      [&cluster = cluster_, number = machine_.number] { cluster.start_executor(number); });
}

// -- boundaries, as downstream

bool Executor::local(StageIndex boundary) const {
  return boundary.value > 0 && stages_.contains(StageIndex{boundary.value - 1});
}

void Executor::buffers_made(StageIndex index) {
  if (local(index)) {
    connect(index);
  } else if (ways_in_.at(index).connection) {
    connect(index);
  }
  if (stages_.contains(index.next())) connect(index.next());
}

/// A new session: what was sent in the ones before is void.
void Executor::connect(StageIndex boundary) {
  InWay& way = ways_in_.at(boundary);
  if (Stage* own = stage(boundary)) own->connect_upstream(++way.session);
}

void Executor::upstream_is(StageIndex boundary, std::uint64_t machine) {
  const auto found = ways_in_.find(boundary);
  if (found == ways_in_.end() || local(boundary)) return;
  InWay& way = found->second;
  if (way.upstream == machine && way.connection && way.connection->open()) return;
  way.upstream = machine;
  if (way.connection) cluster_.network.close(way.connection, 0);
  way.connection.reset();
  if (machine != nowhere) dial(boundary);
}

void Executor::dial(StageIndex boundary) {
  InWay& way = ways_in_.at(boundary);
  const std::uint64_t number = ++way.dial;
  const BoundaryDial request{boundary, stage(boundary)->placement(), machine_.number, life_, number};
  Cluster& cluster = cluster_;
  if (boundary.value == 0) {
    if (!machine_.partitioned) {
      cluster_.network.call(cluster_.coordinator_host, cluster_.life, [&cluster, request] {
        if (cluster.coordinator) cluster.coordinator->admit_downstream(request);
      });
    }
  } else if (!machine_.partitioned && !cluster_.machines.at(way.upstream)->partitioned) {
    Machine& other = *cluster_.machines.at(way.upstream);
    cluster_.network.call(other.host, cluster_.life, [&other, request] {
      if (other.executor) other.executor->admit(request);
    });
  }
  cluster_.timeline.after(cluster_.scenario.silence_limit, machine_.host, life_, [this, boundary, number] {
    const auto found = ways_in_.find(boundary);
    if (found == ways_in_.end() || found->second.dial != number || found->second.connection) return;
    retry(boundary);
  });
}

void Executor::retry(StageIndex boundary) {
  InWay& way = ways_in_.at(boundary);
  way.connection.reset();
  const std::uint64_t number = ++way.dial;
  cluster_.timeline.after(way.policy.failed(), machine_.host, life_, [this, boundary, number] {
    const InWay& later = ways_in_.at(boundary);
    if (later.dial == number && !later.connection && later.upstream != nowhere) dial(boundary);
  });
}

void Executor::dialled(StageIndex boundary, std::uint64_t number, const ConnectionPointer& connection) {
  const auto found = ways_in_.find(boundary);
  if (found == ways_in_.end() || found->second.dial != number || found->second.connection) {
    cluster_.network.close(connection, 0);
    return;
  }
  if (!connection->open()) {
    retry(boundary);
    return;
  }
  found->second.connection = connection;
  found->second.policy.succeeded();
  connect(boundary);
}

void Executor::dial_refused(StageIndex boundary, std::uint64_t number) {
  const auto found = ways_in_.find(boundary);
  if (found != ways_in_.end() && found->second.dial == number) retry(boundary);
}

void Executor::hello(StageIndex index, std::uint64_t session, const BatchPosition& first_lacking) {
  if (local(index)) {
    stage(StageIndex{index.value - 1})->on_hello(session, first_lacking);
    return;
  }
  const ConnectionPointer& connection = ways_in_.at(index).connection;
  if (!connection) return;
  Cluster& cluster = cluster_;
  if (index.value == 0) {
    cluster_.network.send(connection, 0, [&cluster, connection, session, first_lacking] {
      if (cluster.coordinator) cluster.coordinator->remote_hello(connection, session, first_lacking);
    });
    return;
  }
  Machine& other = *cluster_.machines.at(ways_in_.at(index).upstream);
  cluster_.network.send(connection, 0, [&other, index, connection, session, first_lacking] {
    if (other.executor) other.executor->remote_hello(index, connection, session, first_lacking);
  });
}

void Executor::credit(StageIndex index, std::uint64_t session, const EntryCredit& credit) {
  if (local(index)) {
    stage(StageIndex{index.value - 1})->on_credit(session, credit);
    return;
  }
  const ConnectionPointer& connection = ways_in_.at(index).connection;
  if (!connection) return;
  Cluster& cluster = cluster_;
  if (index.value == 0) {
    cluster_.network.send(connection, 0, [&cluster, connection, session, credit] {
      if (cluster.coordinator) cluster.coordinator->remote_credit(connection, session, credit);
    });
    return;
  }
  Machine& other = *cluster_.machines.at(ways_in_.at(index).upstream);
  cluster_.network.send(connection, 0, [&other, index, connection, session, credit] {
    if (other.executor) other.executor->remote_credit(index, connection, session, credit);
  });
}

void Executor::remote_entry(StageIndex boundary, const ConnectionPointer& connection, std::uint64_t session,
                            const Entry& entry) {
  const auto way = ways_in_.find(boundary);
  if (way == ways_in_.end() || way->second.connection != connection) return;
  stage(boundary)->on_entry(session, entry);
}

void Executor::remote_blocked(StageIndex boundary, const ConnectionPointer& connection,
                              const BatchPosition& position, std::uint64_t bytes) {
  const auto way = ways_in_.find(boundary);
  if (way == ways_in_.end() || way->second.connection != connection) return;
  stage(boundary)->on_blocked(position, bytes);
}

// -- boundaries, as upstream

void Executor::admit(const BoundaryDial& dial) {
  Machine& other = *cluster_.machines.at(dial.machine);
  Stage* own = dial.boundary.value > 0 ? stage(StageIndex{dial.boundary.value - 1}) : nullptr;
  BoundaryWay& way = ways_out_[dial.boundary];
  const bool replaced = dial.placement < way.placement && !cluster_.mutated(Mutation::no_session_fencing);
  if (own == nullptr || !own->has_outbound() || replaced) {
    cluster_.network.call(other.host, dial.process, [&other, dial] {
      if (other.executor) other.executor->dial_refused(dial.boundary, dial.number);
    });
    return;
  }
  way.placement = std::max(way.placement, dial.placement);
  way.machine = &other;
  if (way.connection) cluster_.network.close(way.connection, 1);
  const auto closed = [this, boundary = dial.boundary](const ConnectionPointer& gone) {
    BoundaryWay& known = ways_out_[boundary];
    if (known.connection == gone) known.connection.reset();
  };
  const auto lost = [&other, dial](const ConnectionPointer& gone) {
    if (other.executor) other.executor->boundary_lost(dial.boundary, gone);
  };
  way.connection = cluster_.network.open("connection into " + name_of(dial.boundary),
                                         {&other.host, dial.process, lost}, {&machine_.host, life_, closed});
  cluster_.network.call(other.host, dial.process, [&other, dial, connection = way.connection] {
    if (other.executor) other.executor->dialled(dial.boundary, dial.number, connection);
  });
}

void Executor::boundary_lost(StageIndex boundary, const ConnectionPointer& connection) {
  const auto way = ways_in_.find(boundary);
  if (way != ways_in_.end() && way->second.connection == connection) retry(boundary);
}

void Executor::control_lost(const ConnectionPointer& connection) {
  if (control_ != connection) return;
  stream_.interrupted();
  retry_coordinator();
}

void Executor::remote_hello(StageIndex boundary, const ConnectionPointer& connection, std::uint64_t session,
                            const BatchPosition& first_lacking) {
  BoundaryWay& way = ways_out_[boundary];
  if (way.connection != connection) return;
  if (session < way.highest_session && !cluster_.mutated(Mutation::no_session_fencing)) return;
  cluster_.checker.session_opened(boundary, session, way.highest_session);
  way.highest_session = session;
  if (Stage* own = stage(StageIndex{boundary.value - 1})) own->on_hello(session, first_lacking);
}

void Executor::remote_credit(StageIndex boundary, const ConnectionPointer& connection, std::uint64_t session,
                             const EntryCredit& credit) {
  if (ways_out_[boundary].connection != connection) return;
  if (Stage* own = stage(StageIndex{boundary.value - 1})) own->on_credit(session, credit);
}

void Executor::entry(StageIndex index, std::uint64_t session, const Entry& entry) {
  const StageIndex boundary = index.next();
  cluster_.flow_sent(boundary, session, entry.bytes());
  if (Stage* next = stage(boundary)) {
    next->on_entry(session, entry);
    return;
  }
  cluster_.send_entry(ways_out_[boundary], boundary, session, entry);
}

void Executor::blocked(StageIndex index, std::uint64_t, const BatchPosition& position, std::uint64_t bytes) {
  const StageIndex boundary = index.next();
  if (Stage* next = stage(boundary)) {
    next->on_blocked(position, bytes);
    return;
  }
  cluster_.send_blocked(ways_out_[boundary], boundary, position, bytes);
}

void Executor::outbound_gone(StageIndex index) {
  const auto way = ways_out_.find(index.next());
  if (way == ways_out_.end() || !way->second.connection) return;
  cluster_.network.close(way->second.connection, 1);
  way->second.connection.reset();
}

}  // namespace zerolock::simulation
