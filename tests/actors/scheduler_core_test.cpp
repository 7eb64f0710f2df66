#include "actors/core/scheduler_core.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/actors/random_seeds.hpp"

using namespace zerolock;

TEST_CASE("grants stay within the lead and every stage ends at the last granted window", "[scheduler]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const std::uint64_t stages = 1 + random.below(5);
    const std::uint64_t every = 1 + random.below(3);
    const bool calibrates = random.one_in(2);
    const SchedulerSetup setup{stages,
                               WindowIndex{calibrates ? 1 : 1 + random.below(4)},
                               WindowIndex{5 + random.below(20)},
                               every + random.below(3),
                               1 + random.below(3),
                               calibrates};
    SchedulerCore core(setup);
    const WindowIndex before_first{setup.first_window.value - 1};
    std::vector<WindowsDone> committed(stages, calibrates ? WindowsDone{} : WindowsDone{before_first});
    std::vector<WindowsDone> durable = committed;
    std::vector<bool> reported(stages, false);
    WindowIndex granted = before_first;
    WindowIndex end = setup.last_window;
    int finished = 0;
    bool stopped = false;
    const auto obey = [&](const SchedulerOrders& orders) {
      const WindowsDone line = *std::min_element(durable.begin(), durable.end());
      const WindowsDone slowest = *std::min_element(committed.begin(), committed.end());
      if (orders.grant) {
        REQUIRE(*orders.grant > granted);
        REQUIRE_FALSE(stopped);
        granted = *orders.grant;
        REQUIRE(granted.value < window_after(line).value + setup.lead_windows);
        REQUIRE(granted.value < window_after(slowest).value + setup.ahead_windows);
        REQUIRE(granted <= setup.last_window);
      }
      if (orders.recovery_line) REQUIRE(*orders.recovery_line == line);
      if (orders.end_at) {
        REQUIRE(*orders.end_at == granted);
        end = *orders.end_at;
      }
      if (orders.finished) {
        ++finished;
        REQUIRE(std::all_of(durable.begin(), durable.end(), [&](const WindowsDone& w) { return w == end; }));
      }
      REQUIRE(core.recovery_line() == line);
    };
    obey(core.start());
    for (int event = 0; event < 5000 && finished == 0; ++event) {
      const std::uint64_t k = random.below(stages);
      if (!stopped && random.one_in(200)) {
        stopped = true;
        const bool earlier = granted < setup.last_window;
        const SchedulerOrders orders = core.request_stop();
        REQUIRE(orders.end_at.has_value() == earlier);
        obey(orders);
        REQUIRE(core.request_stop() == SchedulerOrders{});
      } else if (random.one_in(2) && committed[k] < granted) {
        committed[k] = window_after(committed[k]);
        obey(core.committed(StageIndex{k}, Incarnation{1}, *committed[k]));
      } else {
        if (!committed[k]) continue;
        const WindowIndex due{committed[k] == end ? end.value : committed[k]->value / every * every};
        if (due < durable[k] || (reported[k] && due == durable[k])) continue;
        if (due.value + 1 < setup.first_window.value) continue;
        reported[k] = true;
        durable[k] = due;
        obey(core.durable(StageIndex{k}, due));
        REQUIRE(core.durable(StageIndex{k}, due) == SchedulerOrders{});
      }
    }
    REQUIRE(finished == 1);
    REQUIRE(core.granted() == end);
  }
}

TEST_CASE("a commit of an earlier incarnation changes nothing", "[scheduler]") {
  SchedulerCore core({1, WindowIndex{1}, WindowIndex{9}, 5, 2});
  core.start();
  core.committed(StageIndex{0}, Incarnation{2}, WindowIndex{1});
  CHECK(core.committed(StageIndex{0}, Incarnation{1}, WindowIndex{2}) == SchedulerOrders{});
  CHECK(core.committed(StageIndex{0}) == WindowIndex{1});
}

TEST_CASE("the recovery line begins when every stage's calibration is durable", "[scheduler]") {
  SchedulerCore core({2, WindowIndex{1}, WindowIndex{9}, 3, 2, true});
  CHECK(core.start().grant == WindowIndex{1});  // sent on ahead, and trained after window 0
  CHECK_FALSE(core.recovery_line());
  CHECK(core.committed(StageIndex{0}, Incarnation{1}, WindowIndex{0}) == SchedulerOrders{});
  CHECK(core.durable(StageIndex{0}, WindowIndex{0}) == SchedulerOrders{});
  CHECK(core.committed(StageIndex{1}, Incarnation{1}, WindowIndex{0}).grant == WindowIndex{2});
  CHECK(core.durable(StageIndex{1}, WindowIndex{0}).recovery_line == WindowIndex{0});
  CHECK_THROWS_AS(SchedulerCore({1, WindowIndex{2}, WindowIndex{9}, 2, 2, true}), std::logic_error);
}

TEST_CASE("a run that is stopped before it starts still ends with its calibration", "[scheduler]") {
  SchedulerCore core({1, WindowIndex{1}, WindowIndex{9}, 3, 2, true});
  CHECK(core.request_stop().end_at == WindowIndex{0});
  CHECK_FALSE(core.start().grant);
  CHECK_FALSE(core.committed(StageIndex{0}, Incarnation{1}, WindowIndex{0}).finished);
  CHECK(core.durable(StageIndex{0}, WindowIndex{0}).finished);
}

TEST_CASE("a scheduler that starts again keeps what was promised and goes on from what was durable",
          "[scheduler]") {
  SchedulerCore core({2, WindowIndex{1}, WindowIndex{9}, 3, 2});
  JournalState journal;
  journal.granted = WindowIndex{6};
  journal.durable = {{StageIndex{0}, WindowIndex{5}}, {StageIndex{1}, WindowIndex{4}}};
  core.remember(journal);
  const SchedulerOrders orders = core.start();
  CHECK(orders.grant == WindowIndex{6});
  CHECK(orders.recovery_line == WindowIndex{4});
  // What the stages say again changes nothing that was not so.
  CHECK(core.durable(StageIndex{0}, WindowIndex{5}) == SchedulerOrders{});
  CHECK(core.committed(StageIndex{0}, Incarnation{1}, WindowIndex{6}) == SchedulerOrders{});
  CHECK(core.committed(StageIndex{1}, Incarnation{1}, WindowIndex{5}).grant == WindowIndex{7});
}

TEST_CASE("a run that was to end when its scheduler stopped still ends there", "[scheduler]") {
  SchedulerCore core({1, WindowIndex{1}, WindowIndex{9}, 3, 2});
  JournalState journal;
  journal.granted = WindowIndex{3};
  journal.ends_at = WindowIndex{3};
  journal.durable = {{StageIndex{0}, WindowIndex{2}}};
  core.remember(journal);
  CHECK_FALSE(core.start().finished);
  CHECK(core.stopping());
  CHECK(core.last_window() == WindowIndex{3});
  CHECK(core.durable(StageIndex{0}, WindowIndex{3}).finished);
}

TEST_CASE("a report beyond the grant is refused", "[scheduler]") {
  SchedulerCore core({2, WindowIndex{1}, WindowIndex{9}, 2, 2});
  core.start();
  CHECK_THROWS_AS(core.committed(StageIndex{0}, Incarnation{1}, WindowIndex{3}), std::logic_error);
  CHECK_THROWS_AS(core.durable(StageIndex{0}, WindowIndex{3}), std::logic_error);
}

TEST_CASE("a run with nothing left to train ends once the initial states are durable", "[scheduler]") {
  SchedulerCore core({2, WindowIndex{5}, WindowIndex{4}, 1, 1});
  CHECK_FALSE(core.start().grant.has_value());
  CHECK_FALSE(core.durable(StageIndex{0}, WindowIndex{4}).finished);
  CHECK(core.durable(StageIndex{1}, WindowIndex{4}).finished);
}
