// How long a compute step may take.

#include "actors/core/compute_deadline.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace std::chrono_literals;

namespace {

constexpr BatchPosition somewhere{WindowIndex{3}, 2};

/// Goes through `count` steps of `length` each, from `now` on.
std::chrono::nanoseconds pass(ComputeDeadline& deadline, ComputeStep step, int count,
                              std::chrono::nanoseconds length, std::chrono::nanoseconds now = 0s) {
  for (int i = 0; i < count; ++i) {
    deadline.began(step, somewhere, now);
    now += length;
    deadline.ended(now);
  }
  return now;
}

}  // namespace

TEST_CASE("the first steps of a life may take long", "[compute-deadline]") {
  ComputeDeadline deadline({});
  CHECK(deadline.allowed(ComputeStep::backward) == 10min);
  const auto now = pass(deadline, ComputeStep::backward, 2, 1s);
  CHECK(deadline.allowed(ComputeStep::backward) == 10min);
  deadline.began(ComputeStep::backward, somewhere, now);
  CHECK_FALSE(deadline.overdue(now + 10min));
  CHECK(deadline.overdue(now + 10min + 1s) ==
        "window 3, micro-batch 2: the backward has taken 601 s; the first ones of a life may take 600 s");
}

TEST_CASE("later steps may take a multiple of their median, and never less than the floor",
          "[compute-deadline]") {
  ComputeDeadline deadline({});
  auto now = pass(deadline, ComputeStep::backward, 5, 400ms);
  CHECK(deadline.allowed(ComputeStep::backward) == 2min);
  CHECK(deadline.allowed(ComputeStep::forward) == 10min);    // each kind has its own
  now = pass(deadline, ComputeStep::backward, 1, 20s, now);  // one that is out of the way changes nothing
  CHECK(deadline.allowed(ComputeStep::backward) == 2min);
  deadline.began(ComputeStep::backward, somewhere, now);
  CHECK_FALSE(deadline.overdue(now + 2min));
  CHECK(deadline.overdue(now + 121s) ==
        "window 3, micro-batch 2: the backward has taken 121 s; it usually takes 0.4 s");
}

TEST_CASE("a step that suddenly takes a minute is no hang", "[compute-deadline]") {
  for (const ComputeStep step : {ComputeStep::receive, ComputeStep::forward, ComputeStep::backward,
                                 ComputeStep::step, ComputeStep::copy}) {
    ComputeDeadline deadline({});
    const auto now = pass(deadline, step, 31, 10ms);
    deadline.began(step, somewhere, now);
    CHECK_FALSE(deadline.overdue(now + 60s));
    CHECK(deadline.overdue(now + 1h));
  }
}

TEST_CASE("a step of a minute that is usual for its stage is no hang", "[compute-deadline]") {
  ComputeDeadline deadline({});
  auto now = pass(deadline, ComputeStep::forward, 3, 60s);
  deadline.began(ComputeStep::forward, somewhere, now);
  CHECK_FALSE(deadline.overdue(now + 60s));
  CHECK_FALSE(deadline.overdue(now + 600s));
  CHECK(deadline.overdue(now + 601s));
  // The newest steps count: a stage that has become faster is held to that.
  deadline.ended(now + 60s);
  now = pass(deadline, ComputeStep::forward, 31, 1s, now + 60s);
  CHECK(deadline.allowed(ComputeStep::forward) == 2min);
}

TEST_CASE("nothing under way is never overdue, and a pause of the process is not the step's",
          "[compute-deadline]") {
  ComputeDeadline deadline({});
  auto now = pass(deadline, ComputeStep::step, 3, 1s);
  CHECK_FALSE(deadline.overdue(now + 24h));
  deadline.paused(1h);
  deadline.began(ComputeStep::step, somewhere, now);
  deadline.paused(1h);
  CHECK_FALSE(deadline.overdue(now + 1h + 2min));
  CHECK(deadline.overdue(now + 1h + 2min + 1s));
}
