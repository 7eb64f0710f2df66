#pragma once
/// A whole cluster in one thread, from one seed: the real cores, imitated processes, disks and connections,
/// and checks of all invariants as it goes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervision/simulation/scenario.hpp"

namespace zerolock::simulation {

struct SimulationSettings {
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> stages;  // instead of what the seed says
  bool whole_log = false;               // or only its end
  Mutation mutation = Mutation::none;   // for tests
};

struct SimulationResult {
  /// Empty: all invariants held and the run came to its end. Else one line: what was violated, and how.
  std::string violation;
  std::vector<std::string> log;
  std::uint64_t log_digest = 0;  // of the whole log, kept or not
  std::uint64_t stages = 0;
  std::uint64_t executors = 0;
  std::uint64_t events = 0;
  std::uint64_t faults = 0;            // that happened
  std::uint64_t lives = 0;             // of workers
  std::uint64_t second_rollbacks = 0;  // see Checker::outbound_lacks
  double virtual_seconds = 0;
};

SimulationResult simulate(const SimulationSettings& settings);

}  // namespace zerolock::simulation
