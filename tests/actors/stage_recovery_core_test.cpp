#include "actors/core/stage_recovery_core.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using Kind = RecoveryOrder::Kind;

namespace {

StageRecoverySetup setup_of(bool has_downstream, bool fresh = true, bool calibrates = false) {
  StageRecoverySetup setup;
  setup.has_downstream = has_downstream;
  setup.fresh = fresh;
  setup.calibrates = calibrates;
  return setup;
}

constexpr WindowIndex window(std::uint64_t value) {
  return WindowIndex{value};
}

constexpr WindowIndex newest{~std::uint64_t{0}};

/// A stage of a first placement that lives and has made these windows durable.
StageRecoveryCore living(const StageRecoverySetup& setup, std::uint64_t durable) {
  StageRecoveryCore core(setup);
  (void)core.begin();
  (void)core.began(core.initial());
  for (std::uint64_t w = 0; w <= durable; ++w) core.durable(window(w));
  return core;
}

}  // namespace

TEST_CASE("the first life of a first placement begins anew once the next stage is there", "[recovery]") {
  StageRecoveryCore core(setup_of(true));
  CHECK(core.disk_is_foreign());
  const RecoveryOrder ask = core.begin();
  REQUIRE(ask.kind == Kind::ask_downstream);
  CHECK(core.downstream_lacks(ask.attempt, {window(1), 0}).kind == Kind::begin_anew);
  CHECK(core.began(core.initial()) == Incarnation{1});
  CHECK_FALSE(core.disk_is_foreign());

  StageRecoveryCore last(setup_of(false));
  CHECK(last.begin().kind == Kind::begin_anew);
}

TEST_CASE("a worker that fails is restored from the newest checkpoint", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true), 3);
  core.interrupted(false);
  const RecoveryOrder ask = core.begin();
  REQUIRE(ask.kind == Kind::ask_downstream);
  const RecoveryOrder order = core.downstream_lacks(ask.attempt, {window(4), 2});
  CHECK(order == RecoveryOrder{Kind::restore, ask.attempt, window(3)});
  const RecoveryOrder next = core.restored(order.attempt, window(3));
  CHECK(next == RecoveryOrder{Kind::go_on, order.attempt, window(3)});
  CHECK(core.began(next.window) == Incarnation{2});

  StageRecoveryCore last = living(setup_of(false), 3);
  last.interrupted(false);
  const RecoveryOrder newest_one = last.begin();
  CHECK(newest_one == RecoveryOrder{Kind::restore, newest_one.attempt, newest});
}

TEST_CASE("a worker that fails during a replay starts before what it has not made again", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true), 5);
  core.interrupted(true);
  const RecoveryOrder first = core.begin();
  (void)core.began(core.downstream_lacks(first.attempt, {window(2), 0}).window);
  core.interrupted(false);  // in window 2; the checkpoint of window 5 is still there
  const RecoveryOrder again = core.begin();
  CHECK(core.downstream_lacks(again.attempt, {window(2), 3}).window == window(1));
}

TEST_CASE("new buffers go back to before the first entry that the next stage lacks", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true), 5);
  core.interrupted(true);
  const RecoveryOrder ask = core.begin();
  REQUIRE(ask.kind == Kind::ask_downstream);
  const RecoveryOrder order = core.downstream_lacks(ask.attempt, {window(4), 2});
  REQUIRE(order.kind == Kind::restore);
  CHECK(order.window == window(3));
  CHECK(core.restored(order.attempt, window(3)).kind == Kind::go_on);
}

TEST_CASE("a state older than what the inbound buffer still holds needs new buffers", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true), 5);
  core.interrupted(false);
  const RecoveryOrder order = core.begin();
  REQUIRE(core.downstream_lacks(order.attempt, {window(6), 0}).window == window(5));
  REQUIRE(core.restored(order.attempt, window(4)).kind == Kind::restart_all);
  core.interrupted(true);
  const RecoveryOrder ask = core.begin();
  const RecoveryOrder again = core.downstream_lacks(ask.attempt, {window(6), 0});
  CHECK(core.restored(again.attempt, window(4)).kind == Kind::go_on);
}

TEST_CASE("answers to an attempt that has ended change nothing", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true), 2);
  core.interrupted(true);
  const RecoveryOrder ask = core.begin();
  core.interrupted(true);
  CHECK_FALSE(core.current(ask.attempt));
  CHECK(core.downstream_lacks(ask.attempt, {window(1), 0}).kind == Kind::nothing);
  CHECK(core.restored(ask.attempt, window(2)).kind == Kind::nothing);
  CHECK(core.none_good(ask.attempt).kind == Kind::nothing);
}

TEST_CASE("a stage of a first placement that has saved nothing trusts no checkpoint", "[recovery]") {
  StageRecoveryCore core(setup_of(false));
  (void)core.begin();
  (void)core.began(core.initial());
  core.interrupted(false);
  const RecoveryOrder order = core.begin();
  REQUIRE(order.kind == Kind::restore);
  CHECK(core.restored(order.attempt, window(0)).kind == Kind::begin_anew);
  CHECK(core.none_good(order.attempt).kind == Kind::begin_anew);
}

TEST_CASE("a later placement restores in its first life, and counts on from its own incarnations",
          "[recovery]") {
  StageRecoverySetup setup = setup_of(true, false);
  setup.incarnation_before = Incarnation{1 << 20};
  StageRecoveryCore core(setup);
  CHECK_FALSE(core.disk_is_foreign());
  const RecoveryOrder ask = core.begin();
  const RecoveryOrder order = core.downstream_lacks(ask.attempt, {window(3), 1});
  REQUIRE(order == RecoveryOrder{Kind::restore, ask.attempt, window(2)});

  SECTION("from what it finds") {
    REQUIRE(core.restored(order.attempt, window(2)).kind == Kind::go_on);
    CHECK(core.began(window(2)) == Incarnation{(1 << 20) + 1});
  }
  SECTION("anew if nothing was ever durable") {
    CHECK(core.none_good(order.attempt).kind == Kind::begin_anew);
  }
  SECTION("not at all if there must have been a checkpoint") {
    core.line(window(1));
    CHECK(core.none_good(order.attempt).kind == Kind::give_up);
  }
}

TEST_CASE("whoever lacks outputs of the calibration gets them from a new calibration", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true, true, true), 0);
  CHECK(core.initial() == WindowsDone{});
  core.interrupted(true);
  const RecoveryOrder ask = core.begin();
  CHECK(core.downstream_lacks(ask.attempt, {window(0), 1}).kind == Kind::begin_anew);
  CHECK(core.downstream_lacks(ask.attempt, {window(1), 0}) ==
        RecoveryOrder{Kind::restore, ask.attempt, window(0)});
}

TEST_CASE("a stage whose checkpoints are all damaged says so instead of starting over", "[recovery]") {
  StageRecoveryCore core = living(setup_of(true), 4);
  core.interrupted(false);
  const RecoveryOrder order = core.begin();
  CHECK(core.none_good(order.attempt).kind == Kind::give_up);
}
