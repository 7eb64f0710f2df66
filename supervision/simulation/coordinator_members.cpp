/// The coordinator's side of its conversations: who is there, and what stages report.

#include <algorithm>
#include <utility>

#include "supervision/simulation/coordinator.hpp"

namespace zerolock::simulation {

void Coordinator::admit(const Hello& hello) {
  Machine& machine = *cluster_.machines.at(hello.machine);
  Member& member = members_.at(hello.machine);
  if (hello.process < member.process || machine.partitioned) return;
  if (member.connection) {
    cluster_.network.close(member.connection, 1);
    connection_lost(hello.machine, member.connection);
  }
  const Time now = cluster_.timeline.now();
  const bool goes_on = member.process == hello.process && member.conversation != 0 &&
                       member.conversation == hello.conversation;
  member.process = hello.process;
  if (!goes_on) {
    member.conversation = (process_ << 32) + ++conversations_;
    (void)member.stream.restart();
    member.inbox.clear();
  }
  member.connection = cluster_.network.open(
      machine.control_name(),
      {&machine.host, hello.life,
       [&machine](const ConnectionPointer& gone) {
         if (machine.executor) machine.executor->control_lost(gone);
       }},
      {&cluster_.coordinator_host, life_, [this, at = hello.machine](const ConnectionPointer& gone) {
         if (members_.at(at).connection == gone) connection_lost(at, gone);
       }});
  if (!member.stream.resume(goes_on ? hello.lacking : 0)) {
    throw Violation("exactly once: two sides of a conversation do not fit");
  }
  cluster_.network.send(member.connection, 1,
                        [&machine, number = hello.number, connection = member.connection,
                         conversation = member.conversation, lacking = member.stream.lacking()] {
                          if (machine.executor) {
                            machine.executor->welcomed(number, connection, conversation, lacking);
                          }
                        });
  const std::string node = machine.name();
  cluster_.log.note(node + (goes_on ? " is back" : " comes") + " with " +
                    std::to_string(hello.running.size()) + " stages");
  if (goes_on) {
    // Whatever it was told to run, it will run: the conversation loses nothing.
    carry_out(placement_.attached(node, placement_.stages_of(node), now));
  } else if (hello.running.empty()) {
    carry_out(placement_.joined(node, now));
    place_first();
  } else {
    reattached(hello);
  }
  pump(hello.machine);
}

/// Stages that have gone on while the coordinator was away.
void Coordinator::reattached(const Hello& hello) {
  const std::string node = cluster_.machines.at(hello.machine)->name();
  std::vector<PlacedStage> running;
  for (const Hello::Running& stage : hello.running) running.push_back(stage.placed);
  const PlacementOrders orders = placement_.attached(node, running, cluster_.timeline.now());
  const bool welcome = orders.dismiss.empty();
  carry_out(orders);
  if (!welcome) return;
  if (line_) {
    ControlWord word{ControlWord::Kind::line, {nowhere}, {}, {}, *line_, 0, 0, nowhere};
    push(hello.machine, word);
  }
  if (end_at_) push(hello.machine, {ControlWord::Kind::end_at, {}, {}, {}, *end_at_, 0, 0, nowhere});
  for (const Hello::Running& stage : hello.running) {
    tell_neighbours(hello.machine, stage.placed);
    const StageIndex index = stage.placed.stage;
    // A copy may have outlived the coordinator that had not noted it down yet; what is committed never was.
    if (stage.durable && cluster_.copies.good(index, *stage.durable)) durable(index, *stage.durable);
    if (stage.committed) carry_out(scheduler_.committed(index, stage.incarnation, *stage.committed));
  }
}

void Coordinator::place_first() {
  if (placed_) return;
  std::vector<std::pair<std::string, std::vector<StageIndex>>> stages;
  const std::vector<std::string> here = placement_.spares();
  for (std::size_t i = 0; i < cluster_.machines.size(); ++i) {
    const std::vector<StageIndex>& own = cluster_.scenario.first_placement[i];
    const std::string node = cluster_.machines[i]->name();
    if (own.empty()) continue;
    if (std::find(here.begin(), here.end(), node) == here.end()) return;
    stages.emplace_back(node, own);
  }
  placed_ = true;
  carry_out(placement_.place(stages, cluster_.timeline.now()));
}

void Coordinator::connection_lost(std::size_t machine, const ConnectionPointer&) {
  Member& member = members_.at(machine);
  member.connection.reset();
  member.stream.interrupted();
  member.inbox.clear();
  carry_out(placement_.away(cluster_.machines.at(machine)->name(), "its connection broke",
                            cluster_.timeline.now()));
}

void Coordinator::process_gone(std::size_t machine, std::uint64_t process) {
  Member& member = members_.at(machine);
  if (member.process != process) return;
  member.conversation = 0;
  carry_out(
      placement_.gone(cluster_.machines.at(machine)->name(), "its process ended", cluster_.timeline.now()));
}

void Coordinator::push(std::size_t machine, const ControlWord& word) {
  Member& member = members_.at(machine);
  if (member.conversation == 0) return;  // what it is to know, it hears when it is back
  if (!member.stream.push(word.bytes())) throw Violation("bounded: an executor has been away too long");
  pump(machine);
}

void Coordinator::pump(std::size_t machine) {
  Member& member = members_.at(machine);
  Machine& other = *cluster_.machines.at(machine);
  while (const NumberedMessage* message = member.stream.next_to_send()) {
    cluster_.network.send(
        member.connection, 1,
        [&other, connection = member.connection, number = message->number, body = message->body] {
          if (other.executor) other.executor->on_control(connection, number, body);
        });
  }
}

void Coordinator::on_acknowledged(std::size_t from, std::uint64_t lacking) {
  (void)members_.at(from).stream.acknowledged(lacking);
}

void Coordinator::on_control(std::size_t from, const ConnectionPointer& connection, std::uint64_t number,
                             const std::string& body) {
  Member& member = members_.at(from);
  if (member.connection != connection || member.conversation == 0) return;
  member.inbox.emplace_back(number, body);
  read(from);
}

void Coordinator::read(std::size_t machine) {
  Member& member = members_.at(machine);
  while (!member.busy && !member.inbox.empty()) {
    const auto [number, body] = std::move(member.inbox.front());
    member.inbox.pop_front();
    const auto reception = member.stream.received(number);
    if (reception == MessageStreamCore::Reception::gap) {
      throw Violation("exactly once: a word of an executor is missing");
    }
    const ControlWord word = ControlWord::from(body);
    const bool heard = reception == MessageStreamCore::Reception::deliver &&
                       (current(word) || cluster_.mutated(Mutation::no_placement_fencing));
    if (heard && word.kind == ControlWord::Kind::durable) {
      copy(machine, word);
      return;
    }
    if (heard) committed(word);
    acknowledge(machine);
  }
}

void Coordinator::acknowledge(std::size_t machine) {
  const Member& member = members_.at(machine);
  if (!member.connection) return;
  Machine& other = *cluster_.machines.at(machine);
  cluster_.network.send(member.connection, 1,
                        [&other, connection = member.connection, lacking = member.stream.lacking()] {
                          if (other.executor && other.executor->control() == connection)
                            other.executor->on_acknowledged(lacking);
                        });
}

bool Coordinator::current(const ControlWord& word) const {
  return placement_.placement_of(word.stage) == word.placement && placement_.node_of(word.stage).has_value();
}

void Coordinator::committed(const ControlWord& word) {
  cluster_.log.note(name_of(word.stage) + " has committed window " + std::to_string(word.window.value));
  cluster_.checker.heard_of(word.stage, word.placement, placement_.placement_of(word.stage));
  carry_out(scheduler_.committed(word.stage, word.incarnation, word.window));
  if (cluster_.mutated(Mutation::line_too_far)) carry_out(scheduler_.durable(word.stage, word.window));
}

/// The executor keeps the word until the copy is on disk.
void Coordinator::copy(std::size_t machine, const ControlWord& word) {
  Member& member = members_.at(machine);
  member.busy = true;
  cluster_.checker.heard_of(word.stage, word.placement, placement_.placement_of(word.stage));
  if (cluster_.mutated(Mutation::durable_before_copy)) durable(word.stage, word.window);
  cluster_.copies.begin_write(word.stage, word.window, word.value);
  cluster_.copies.rename(word.stage, word.window);
  cluster_.copies.begin_manifest(word.stage, word.window);
  cluster_.timeline.after(cluster_.jitter(cluster_.scenario.disk_write), cluster_.coordinator_host, life_,
                          [this, machine, word] {
                            cluster_.copies.complete(word.stage, word.window);
                            cluster_.checker.copied(word.stage, word.window);
                            members_.at(machine).busy = false;
                            // Whoever has the stage now was given the copies that there were before.
                            if (current(word)) durable(word.stage, word.window);
                            acknowledge(machine);
                            read(machine);
                          });
}

}  // namespace zerolock::simulation
