#include "supervision/simulation/simulation.hpp"

#include <exception>
#include <functional>

#include "supervision/simulation/coordinator.hpp"
#include "supervision/simulation/faults.hpp"

namespace zerolock::simulation {
namespace {

constexpr std::uint64_t events_max = 20'000'000;

/// Once nothing is out of order any more, the run ends within this time: what all stages have to do, one
/// after the other and at the slowest, three times over, and what it takes until everybody has found
/// everybody again.
Time time_left_at_most(const Scenario& scenario) {
  Time work{0};
  for (WindowIndex window{1}; window <= scenario.last_window; window = window.next()) {
    const std::uint64_t count = scenario.micro_batches(window);
    work += 2 * scenario.forward * (3 * count + 1) + 6 * scenario.disk_write + 2 * scenario.journal;
    work += (scenario.latency + scenario.message) * 20 * count;
  }
  const Time finding = scenario.placement.absence_max + 4 * scenario.silence_limit +
                       4 * scenario.redial_longest + 20 * scenario.latency;
  return 3 * (work + finding) * scenario.stages + 10 * finding;
}

void ask_for_stop(Cluster& cluster) {
  if (cluster.coordinator && cluster.coordinator->stop()) return;
  cluster.timeline.after(std::chrono::milliseconds(5), cluster.coordinator_host, cluster.life,
                         [&cluster] { ask_for_stop(cluster); });
}

void run(Cluster& cluster) {
  const Time allowed = time_left_at_most(cluster.scenario);
  cluster.faults->draw();
  cluster.start_coordinator();
  for (const auto& machine : cluster.machines) cluster.start_executor(machine->number);
  if (cluster.scenario.stop_at) {
    cluster.timeline.at(*cluster.scenario.stop_at, cluster.coordinator_host, cluster.life,
                        [&cluster] { ask_for_stop(cluster); });
  }
  while (!cluster.finished) {
    if (!cluster.timeline.step())
      throw Violation("liveness: nothing happens any more, and the run is not over");
    cluster.graveyard.clear();
    if (!cluster.paused.empty()) throw Violation("liveness: the run pauses: " + cluster.paused);
    if (cluster.timeline.now() > cluster.faults->quiet_from() + allowed) {
      throw Violation("liveness: the run is not over " + std::to_string(allowed.count() / 1'000'000) +
                      " ms after the last fault");
    }
    if (cluster.timeline.steps() > events_max) throw Violation("liveness: too many events");
  }
}

}  // namespace

SimulationResult simulate(const SimulationSettings& settings) {
  const Scenario scenario = make_scenario(settings.seed, settings.stages);
  Cluster cluster(scenario, settings.mutation, settings.whole_log);
  SimulationResult result;
  try {
    run(cluster);
  } catch (const Violation& violation) {
    result.violation = violation.what();
  } catch (const std::logic_error& error) {
    result.violation = std::string("an invariant of a core: ") + error.what();
  }
  result.log = cluster.log.lines();
  result.log_digest = cluster.log.digest();
  result.stages = scenario.stages;
  result.executors = scenario.executors();
  result.events = cluster.timeline.steps();
  result.faults = cluster.faults->happened();
  result.lives = cluster.checker.lives();
  result.second_rollbacks = cluster.checker.second_rollbacks();
  result.virtual_seconds = std::chrono::duration<double>(cluster.timeline.now()).count();
  return result;
}

}  // namespace zerolock::simulation
