/// What the simulation's checks are worth: deliberate bugs, each of which they must find.

#include <string>

#include "supervision/simulation/simulation.hpp"

#include <catch2/catch.hpp>

using namespace zerolock::simulation;

TEST_CASE("each deliberate bug is found within 200 seeds", "[simulation]") {
  struct Bug {
    Mutation mutation;
    std::string found_as;  // how one of the violations begins
  };
  const Bug bug = GENERATE(values<Bug>({
      {Mutation::release_before_durable, "nothing released early"},
      {Mutation::no_session_fencing, "fenced"},
      {Mutation::no_placement_fencing, "fenced"},
      {Mutation::double_step, "exactly once"},
      {Mutation::line_too_far, "nothing released early"},
      {Mutation::released_by_downstream, "nothing released early"},
      {Mutation::torn_checkpoint_trusted, "no silent damage"},
      {Mutation::half_window_kept, "exactly once"},
      {Mutation::gap_accepted, "same bits"},
      {Mutation::credit_beyond_bound, "bounded"},
      {Mutation::backward_before_send, "early forwarding"},
      {Mutation::announced_before_journal, "an invariant of a core"},
      {Mutation::damaged_frame_accepted, "same bits"},
      {Mutation::durable_before_copy, "nothing released early"},
  }));
  INFO(to_string(bug.mutation));
  std::string found;
  std::uint64_t seed = 0;
  for (; seed < 200 && found.rfind(bug.found_as, 0) != 0; ++seed) {
    SimulationSettings settings;
    settings.seed = seed;
    settings.mutation = bug.mutation;
    found = simulate(settings).violation;
  }
  CHECK(found.rfind(bug.found_as, 0) == 0);
}
