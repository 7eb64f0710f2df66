#include "supervision/simulation/cluster.hpp"

#include <utility>

#include "supervision/simulation/coordinator.hpp"
#include "supervision/simulation/faults.hpp"

namespace zerolock::simulation {

Cluster::Cluster(const Scenario& given, Mutation bug, bool whole_log)
    : scenario(given),
      mutation(bug),
      random(given.seed ^ 0x5bd1e995),
      log(timeline, whole_log),
      expected(scenario),
      checker(scenario, expected, log),
      network(timeline, random, log, scenario.latency, scenario.silence_limit),
      journal(make_memory_journal()),
      faults(std::make_unique<FaultPlan>(*this)),
      flows(scenario.stages) {
  for (std::size_t i = 0; i < scenario.executors(); ++i) {
    machines.push_back(std::make_unique<Machine>());
    machines.back()->number = i;
  }
}

Cluster::~Cluster() = default;

void Cluster::start_executor(std::size_t number) {
  Machine& machine = *machines.at(number);
  if (machine.executor || machine.lost_for_good) return;
  // As WorkFolder does. The coordinator may never have got what an earlier process has left: a stage that
  // went on from there would be durable in a window before which nobody holds a checkpoint of it.
  machine.disk.erase();
  machine.executor = std::make_unique<Executor>(*this, machine, ++machine.processes);
  log.note(machine.name() + " starts process " + std::to_string(machine.processes));
  machine.executor->start();
}

void Cluster::kill_executor(std::size_t number, bool machine_too) {
  Machine& machine = *machines.at(number);
  if (!machine.executor) return;
  machine.executor->end();
  graveyard.emplace_back(std::move(machine.executor));
  machine.disk.crash(random);
  network.host_gone(machine.host, machine_too);
  if (machine.host.paused) timeline.resume(machine.host);
  if (!scenario.processes_watched || machine_too) return;
  network.call(coordinator_host, life, [this, number, process = machine.processes] {
    if (coordinator) coordinator->process_gone(number, process);
  });
}

void Cluster::start_coordinator() {
  if (coordinator) return;
  log.note("the coordinator starts");
  coordinator = std::make_unique<Coordinator>(*this, ++coordinator_processes);
  coordinator->start();
}

void Cluster::kill_coordinator() {
  if (!coordinator) return;
  coordinator->end();
  graveyard.emplace_back(std::move(coordinator));
  copies.crash(random);
  network.host_gone(coordinator_host, random.one_in(2));
  if (coordinator_host.paused) timeline.resume(coordinator_host);
}

void Cluster::pause(Host& host) {
  host.paused = true;
  ++host.pauses;
  network.host_paused(host);
}

void Cluster::send_entry(const BoundaryWay& way, StageIndex boundary, std::uint64_t session,
                         const Entry& entry) {
  if (!way.connection) return;
  const auto deliver = [machine = way.machine, boundary, session,
                        connection = way.connection](const Entry& it) {
    if (machine->executor) machine->executor->remote_entry(boundary, connection, session, it);
  };
  std::function<void()> damaged;
  if (mutated(Mutation::damaged_frame_accepted)) {
    damaged = [deliver, entry] {
      deliver(make_entry(entry.position, entry.producer, value_of(entry) ^ 1,
                         static_cast<std::uint64_t>(entry.layout->rows())));
    };
  } else if (mutated(Mutation::gap_accepted)) {
    damaged = [] {};
  }
  network.send(
      way.connection, 1, [deliver, entry] { deliver(entry); }, std::move(damaged));
}

void Cluster::send_blocked(const BoundaryWay& way, StageIndex boundary, const BatchPosition& position,
                           std::uint64_t bytes) {
  if (!way.connection) return;
  network.send(way.connection, 1,
               [machine = way.machine, boundary, connection = way.connection, position, bytes] {
                 if (machine->executor)
                   machine->executor->remote_blocked(boundary, connection, position, bytes);
               });
}

void Cluster::flow_sent(StageIndex boundary, std::uint64_t session, std::uint64_t bytes) {
  Flow& flow = flows.at(boundary.value);
  if (session < flow.session) return;
  if (session > flow.session) flow = {session, 0, 0};
  ++flow.entries;
  flow.bytes += bytes;
  checker.in_flight(boundary, flow.entries, flow.bytes);
}

void Cluster::flow_arrived(StageIndex boundary, std::uint64_t session, std::uint64_t bytes) {
  Flow& flow = flows.at(boundary.value);
  if (session != flow.session) return;
  --flow.entries;
  flow.bytes -= bytes;
}

}  // namespace zerolock::simulation
