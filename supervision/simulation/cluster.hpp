#pragma once
/// The world of one simulated run: time, chance, machines, the ways between them, and who watches.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/core/fault_point.hpp"
#include "actors/core/journal.hpp"
#include "supervision/simulation/checker.hpp"
#include "supervision/simulation/connection.hpp"
#include "supervision/simulation/disk.hpp"
#include "supervision/simulation/event_log.hpp"
#include "supervision/simulation/numbers.hpp"
#include "supervision/simulation/scenario.hpp"
#include "supervision/simulation/timeline.hpp"

namespace zerolock::simulation {

class Coordinator;
class Executor;
class FaultPlan;

/// One machine, with at most one executor process at a time.
struct Machine {
  std::size_t number = 0;
  Host host;
  CheckpointDisk disk;
  std::unique_ptr<Executor> executor;  // null: no process is running
  std::uint64_t processes = 0;         // that have been started
  std::uint64_t slowness = 1;
  bool partitioned = false;  // its process reaches nobody new
  bool lost_for_good = false;

  [[nodiscard]] std::string name() const { return "executor-" + std::to_string(number); }
  [[nodiscard]] std::string control_name() const { return "connection of " + name() + " to the coordinator"; }
};

/// The upstream's end of a boundary into another process.
struct BoundaryWay {
  Placement placement;  // the highest known of the downstream
  std::uint64_t highest_session = 0;
  Machine* machine = nullptr;  // of the downstream
  ConnectionPointer connection;
};

struct Cluster {
  Cluster(const Scenario& given, Mutation bug, bool whole_log);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] bool mutated(Mutation bug) const { return mutation == bug; }
  /// Up to twice as long.
  [[nodiscard]] Time jitter(Time time) { return random.between(time, 2 * time); }

  void start_executor(std::size_t machine);
  /// `machine_too`: nobody closes its connections.
  void kill_executor(std::size_t machine, bool machine_too);
  void start_coordinator();
  void kill_coordinator();
  void pause(Host& host);

  /// Across a boundary, if anybody is connected.
  void send_entry(const BoundaryWay& way, StageIndex boundary, std::uint64_t session, const Entry& entry);
  void send_blocked(const BoundaryWay& way, StageIndex boundary, const BatchPosition& position,
                    std::uint64_t bytes);
  /// What is on its way in the latest session of a boundary.
  void flow_sent(StageIndex boundary, std::uint64_t session, std::uint64_t bytes);
  void flow_arrived(StageIndex boundary, std::uint64_t session, std::uint64_t bytes);

  Scenario scenario;
  Mutation mutation;
  Timeline timeline;
  Random random;
  EventLog log;
  ExpectedNumbers expected;
  Checker checker;
  Network network;
  Life life = new_life();  // of the world
  std::vector<std::unique_ptr<Machine>> machines;
  Host coordinator_host;
  std::uint64_t coordinator_processes = 0;  // that have been started
  Host outside;                             // of what happens to processes
  CheckpointDisk copies;                    // of the coordinator's machine
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Coordinator> coordinator;  // null: not running
  std::unique_ptr<FaultPlan> faults;
  std::vector<std::shared_ptr<void>> graveyard;  // ended within one of their own events; emptied after it
  struct Flow {
    std::uint64_t session = 0;
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Flow> flows;  // by boundary
  bool finished = false;
  std::string paused;  // why the run has paused; empty: it has not
};

}  // namespace zerolock::simulation
