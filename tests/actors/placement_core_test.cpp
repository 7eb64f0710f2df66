#include "actors/core/placement_core.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "tests/actors/random_seeds.hpp"

using namespace zerolock;
using namespace std::chrono_literals;

namespace {

using Orders = PlacementOrders;

PlacementSetup three_stages() {
  PlacementSetup setup;
  setup.stages = 3;
  setup.absence_max = 15s;
  setup.vacancy_max = 60s;
  setup.losses_max = 2;
  setup.period = 100s;
  return setup;
}

/// Stages 0 and 1 on a, 2 on b, c is a spare.
PlacementCore placed() {
  PlacementCore core(three_stages());
  for (const char* node : {"a", "b", "c"}) CHECK(core.joined(node, 0s) == Orders{});
  const Orders orders =
      core.place({{"a", {StageIndex{0}, StageIndex{1}}}, {"b", {StageIndex{2}}}, {"c", {}}}, 0s);
  CHECK((orders.assign ==
         std::vector<Orders::Assign>{{"a", {{StageIndex{0}, Placement{1}}, {StageIndex{1}, Placement{1}}}},
                                     {"b", {{StageIndex{2}, Placement{1}}}}}));
  return core;
}

Orders assigned(const std::string& node, std::vector<PlacedStage> stages) {
  Orders orders;
  orders.assign.push_back({node, std::move(stages)});
  return orders;
}

}  // namespace

TEST_CASE("incarnations rise with lives and placements, and tell both", "[placement]") {
  CHECK(to_string(Incarnation{1}) == "1");
  const Incarnation second = incarnation_before(Placement{2}).next();
  CHECK(second > Incarnation{1000});
  CHECK(to_string(second) == "2.1");
}

TEST_CASE("a spare takes over all stages of a lost executor, in a placement of its own", "[placement]") {
  PlacementCore core = placed();
  CHECK((core.spares() == std::vector<std::string>{"c"}));
  const auto orders = core.gone("a", "its process was ended by signal 9", 1s);
  CHECK(orders == assigned("c", {{StageIndex{0}, Placement{2}}, {StageIndex{1}, Placement{2}}}));
  CHECK(core.node_of(StageIndex{2}) == "b");
  CHECK(core.placement_of(StageIndex{2}) == Placement{1});
  CHECK(core.spares().empty());
  CHECK(core.next_deadline() == std::nullopt);
}

TEST_CASE("without a spare, stages wait for an executor to join, and then the run pauses", "[placement]") {
  PlacementCore core = placed();
  core.gone("c", "it has left", 0s);
  CHECK(core.gone("b", "it has left", 1s) == Orders{});
  CHECK(core.node_of(StageIndex{2}) == std::nullopt);
  CHECK(core.next_deadline() == 61s);
  SECTION("the same one again") {
    CHECK(core.joined("b", 5s) == assigned("b", {{StageIndex{2}, Placement{2}}}));
    CHECK(core.next_deadline() == std::nullopt);
  }
  SECTION("nobody") {
    CHECK(core.tick(60s) == Orders{});
    const auto orders = core.tick(61s);
    REQUIRE(orders.pause);
    CHECK(*orders.pause == "stage 2 has no executor because it has left; no spare one joined within 60 s");
    CHECK(core.joined("d", 62s) == Orders{});
  }
}

TEST_CASE("an executor out of reach keeps its stages for a while", "[placement]") {
  PlacementCore core = placed();
  CHECK(core.away("a", "connection reset", 10s) == Orders{});
  CHECK(core.away("a", "no route", 12s) == Orders{});
  CHECK(core.next_deadline() == 25s);
  SECTION("it comes back") {
    CHECK(core.attached("a", core.stages_of("a"), 20s) == Orders{});
    CHECK(core.next_deadline() == std::nullopt);
  }
  SECTION("it does not, and is sent away when it does later") {
    Orders orders = core.tick(25s);
    CHECK((orders.dismiss == std::vector<std::string>{"a"}));
    REQUIRE(orders.assign.size() == 1);
    CHECK(orders.assign[0].node == "c");
    orders = core.attached("a", {{StageIndex{0}, Placement{1}}, {StageIndex{1}, Placement{1}}}, 40s);
    CHECK((orders.dismiss == std::vector<std::string>{"a"}));
    CHECK(orders.assign.empty());
    CHECK(core.joined("a", 41s) == Orders{});
    CHECK((core.spares() == std::vector<std::string>{"a"}));
  }
  SECTION("it was started anew meanwhile") {
    const auto orders = core.joined("a", 20s);
    REQUIRE(orders.assign.size() == 1);  // whichever of the spares takes them
    CHECK(orders.assign[0].stages.size() == 2);
  }
}

TEST_CASE("stages that are lost too often pause the run", "[placement]") {
  PlacementCore core = placed();
  CHECK(core.gone("b", "x", 1s).assign.at(0).node == "c");
  CHECK(core.joined("b", 2s) == Orders{});
  CHECK(core.gone("c", "y", 3s).assign.at(0).node == "b");
  const auto orders = core.gone("b", "the process of executor b was ended by signal 9", 4s);
  REQUIRE(orders.pause);
  CHECK(*orders.pause ==
        "stage 2 lost its executor 3 times within 100 s, the last time because the process of executor b was "
        "ended by signal 9");
  CHECK(core.paused());
}

TEST_CASE("a coordinator that starts again waits for the executors that its journal names", "[placement]") {
  PlacementCore core(three_stages());
  core.remember("a", {StageIndex{0}, Placement{1}}, 0s);
  core.remember("a", {StageIndex{1}, Placement{1}}, 0s);
  core.remember("b", {StageIndex{2}, Placement{1}}, 0s);
  core.remember("c", {StageIndex{2}, Placement{2}}, 0s);
  CHECK(core.attached("a", {{StageIndex{0}, Placement{1}}, {StageIndex{1}, Placement{1}}}, 1s) == Orders{});
  // b was replaced before: it does not get its stage back.
  CHECK((core.attached("b", {{StageIndex{2}, Placement{1}}}, 2s).dismiss == std::vector<std::string>{"b"}));
  CHECK(core.joined("b", 3s) == Orders{});
  CHECK(core.next_deadline() == 15s);
  const auto orders = core.tick(15s);
  REQUIRE(orders.assign.size() == 1);
  CHECK((orders.assign[0] == Orders::Assign{"b", {{StageIndex{2}, Placement{3}}}}));
}

TEST_CASE("whatever happens, a stage is on one executor and its placements rise", "[placement]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    PlacementSetup setup = three_stages();
    setup.losses_max = 1000;
    setup.vacancy_max = 100'000s;
    PlacementCore core(setup);
    const std::vector<std::string> nodes{"a", "b", "c", "d"};
    std::chrono::nanoseconds now{0};
    for (const auto& node : nodes) core.joined(node, now);
    core.place({{"a", {StageIndex{0}}}, {"b", {StageIndex{1}}}, {"c", {StageIndex{2}}}}, now);
    std::map<StageIndex, Placement> highest;
    for (int i = 0; i < 300; ++i) {
      now += std::chrono::seconds(random.below(4));
      const std::string& node = nodes[random.below(nodes.size())];
      const std::vector<std::string> spares = core.spares();
      Orders orders;
      switch (random.below(5)) {
        case 0:
          orders = core.joined(node, now);
          break;
        case 1:
          orders = core.gone(node, "x", now);
          break;
        case 2:
          orders = core.away(node, "y", now);
          break;
        case 3:
          orders = core.attached(node, core.stages_of(node), now);
          break;
        default:
          orders = core.tick(now);
      }
      REQUIRE_FALSE(orders.pause);
      for (const auto& assign : orders.assign) {
        REQUIRE((core.stages_of(assign.node) == assign.stages));
        for (const PlacedStage& placed : assign.stages) {
          REQUIRE(placed.placement > highest[placed.stage]);
          highest[placed.stage] = placed.placement;
        }
      }
      // A spare and a vacant stage never wait for each other.
      bool vacant = false;
      for (std::uint64_t stage = 0; stage < 3; ++stage) vacant = vacant || !core.node_of(StageIndex{stage});
      REQUIRE((!vacant || core.spares().empty()));
    }
  }
}
