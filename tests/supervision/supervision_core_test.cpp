#include <catch2/catch.hpp>
#include <vector>

#include "supervision/child_order.hpp"
#include "supervision/restart_policy.hpp"
#include "tests/actors/random_seeds.hpp"

using namespace zerolock;
using namespace std::chrono_literals;

TEST_CASE("the first restart is at once, later ones wait longer, one too many escalates", "[restart]") {
  RestartPolicy policy({4, 60s, 10ms, 30ms});
  CHECK(policy.failed(0s) == std::chrono::nanoseconds(0));
  CHECK(policy.failed(1s) == std::chrono::nanoseconds(10ms));
  CHECK(policy.failed(2s) == std::chrono::nanoseconds(20ms));
  CHECK(policy.failed(3s) == std::chrono::nanoseconds(30ms));
  CHECK(policy.failed(4s) == std::nullopt);
}

TEST_CASE("failures older than the period are forgotten", "[restart]") {
  RestartPolicy policy({1, 10s, 10ms, 1s});
  CHECK(policy.failed(0s).has_value());
  CHECK(policy.failed(11s) == std::chrono::nanoseconds(0));
  CHECK(policy.failed(12s) == std::nullopt);
}

TEST_CASE("restarts in any period never exceed the intensity", "[restart]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const RestartIntensity intensity{1 + random.below(5), std::chrono::seconds(1 + random.below(20)), 1ms,
                                     1s};
    RestartPolicy policy(intensity);
    std::vector<std::chrono::nanoseconds> failures;
    std::chrono::nanoseconds now{0};
    for (int i = 0; i < 100; ++i) {
      now += std::chrono::milliseconds(random.below(6000));
      failures.push_back(now);
      std::uint64_t recent = 0;
      for (const auto failure : failures) recent += now - failure <= intensity.period ? 1 : 0;
      const bool restarted = policy.failed(now).has_value();
      REQUIRE(restarted == (recent <= intensity.restarts_max));
      REQUIRE(policy.recent_failures() == recent);
    }
  }
}

TEST_CASE("children stop from right to left, one at a time", "[children]") {
  ChildOrder order(3);
  for (std::size_t i = 0; i < 3; ++i) order.started(i);
  CHECK_FALSE(order.next_to_stop().has_value());
  order.stop_from(1);
  CHECK(order.next_to_stop() == std::size_t{2});
  CHECK_FALSE(order.next_to_stop().has_value());  // until it is gone
  order.stop_from(0);
  order.down(2);
  CHECK(order.next_to_stop() == std::size_t{1});
  order.down(1);
  CHECK(order.next_to_stop() == std::size_t{0});
  CHECK_FALSE(order.stopped());
  order.down(0);
  CHECK(order.stopped());
  order.started(0);
  CHECK_FALSE(order.stopped());
}

TEST_CASE("whatever goes down meanwhile, a stop ends and leaves the children to the left alone",
          "[children]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const std::size_t count = 1 + random.below(6);
    const std::size_t from = random.below(count);
    ChildOrder order(count);
    for (std::size_t i = 0; i < count; ++i) order.started(i);
    order.stop_from(from);
    std::size_t last = count;
    for (std::size_t turn = 0; turn < 10 * count && !order.stopped(); ++turn) {
      if (random.one_in(3)) order.down(from + random.below(count - from));
      if (const auto next = order.next_to_stop()) {
        REQUIRE(*next < last);
        REQUIRE(*next >= from);
        last = *next;
        order.down(*next);
      }
    }
    REQUIRE(order.stopped());
    for (std::size_t i = 0; i < from; ++i) REQUIRE(order.running(i));
  }
}
