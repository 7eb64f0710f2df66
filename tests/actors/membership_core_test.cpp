#include "actors/core/membership_core.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "actors/core/journal.hpp"
#include "tests/actors/random_seeds.hpp"

using namespace zerolock;
using namespace std::chrono_literals;

TEST_CASE("a name belongs to its latest start, and to one version", "[membership]") {
  MembershipCore core("1", 10s);
  CHECK(core.join({"a", "2", 1, 0, 1}, 0s) == Admission::other_version);
  CHECK(core.join({"a", "1", 1, 0, 1}, 0s) == Admission::accepted);
  CHECK(core.join({"a", "1", 1, 0, 1}, 1s) == Admission::name_taken);
  CHECK(core.join({"a", "1", 1, 0, 2}, 2s) == Admission::accepted);
  CHECK(core.join({"a", "1", 1, 0, 1}, 3s) == Admission::earlier_placement);
  CHECK_FALSE(core.beat("a", 1, 4s));
  CHECK(core.beat("a", 2, 4s));
  core.leave("a", 1);
  CHECK(core.members().size() == 1);
  core.leave("a", 2);
  CHECK(core.members().empty());
}

TEST_CASE("silence is exactly what the lease says", "[membership]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    MembershipCore core("1", 5s);
    std::map<std::string, std::chrono::nanoseconds> heard;
    std::chrono::nanoseconds now{0};
    for (int i = 0; i < 200; ++i) {
      now += std::chrono::seconds(random.below(3));
      const std::string name(1, static_cast<char>('a' + random.below(4)));
      if (!heard.contains(name)) {
        REQUIRE(core.join({name, "1", 1, 0, 1}, now) == Admission::accepted);
      } else {
        REQUIRE(core.beat(name, 1, now));
      }
      heard[name] = now;
      std::vector<std::string> silent;
      for (const auto& [member, last] : heard) {
        if (now - last > 5s) silent.push_back(member);
      }
      REQUIRE(core.silent(now) == silent);
    }
  }
}

TEST_CASE("the journal gives back what was kept, in order", "[journal]") {
  const auto journal = make_memory_journal();
  const JournalRecord first{JournalRecord::Kind::run_started, {}, WindowIndex{0}, "run"};
  const JournalRecord second{JournalRecord::Kind::stage_durable, StageIndex{2}, WindowIndex{3}, ""};
  journal->append(first);
  journal->append(second);
  CHECK((journal->records() == std::vector<JournalRecord>{first, second}));
}
