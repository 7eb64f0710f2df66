/// A few hundred simulated clusters, with all that can go wrong. A failure names the seed, which
/// `zerolock simulate --seeds SEED..SEED --log` runs again.

#include "supervision/simulation/simulation.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

using namespace zerolock::simulation;

namespace {

SimulationResult run(std::uint64_t seed, bool whole_log = false) {
  SimulationSettings settings;
  settings.seed = seed;
  settings.whole_log = whole_log;
  return simulate(settings);
}

}  // namespace

TEST_CASE("whatever fails in a cluster, all invariants hold and the run comes to its end", "[simulation]") {
  std::uint64_t faults = 0;
  std::uint64_t lives = 0;
  std::uint64_t stages = 0;
  std::uint64_t largest = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const SimulationResult result = run(seed);
    INFO("seed " << seed << ", " << result.stages << " stages");
    CHECK(result.violation == "");
    faults += result.faults;
    lives += result.lives;
    stages += result.stages;
    largest = std::max(largest, result.stages);
  }
  // Or the test would show little.
  CHECK(faults > 2000);
  CHECK(lives > stages + 1000);
  CHECK(largest == 64);
}

TEST_CASE("the same seed gives the same run, event by event", "[simulation]") {
  for (const std::uint64_t seed : {3, 17, 101}) {
    const SimulationResult first = run(seed, true);
    const SimulationResult second = run(seed, true);
    CHECK(first.log == second.log);
    CHECK(first.log.size() > 10);
    CHECK(first.events == second.events);
    const SimulationResult short_log = run(seed);
    CHECK(short_log.log_digest == first.log_digest);
    CHECK(short_log.log.size() <= first.log.size());
  }
  CHECK(run(3).log_digest != run(17).log_digest);
}

TEST_CASE("the number of stages can be given instead of drawn", "[simulation]") {
  for (const std::uint64_t stages : {1, 5, 64}) {
    SimulationSettings settings;
    settings.seed = 12;
    settings.stages = stages;
    const SimulationResult result = simulate(settings);
    CHECK(result.violation == "");
    CHECK(result.stages == stages);
  }
}
