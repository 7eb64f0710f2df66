#include "actors/core/stage_progress_core.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using Kind = StageAction::Kind;

namespace {

StageProgressSetup setup_of(bool has_downstream, std::uint64_t last, std::uint64_t every = 1) {
  StageProgressSetup setup;
  setup.has_downstream = has_downstream;
  setup.checkpoints = {every, WindowIndex{last}};
  setup.micro_batches = [](WindowIndex) { return std::uint64_t{2}; };
  return setup;
}

BatchPosition at_position(std::uint64_t window, std::uint64_t micro_batch) {
  return {WindowIndex{window}, micro_batch};
}

/// Asks for the next entry if that is due.
void ask(StageProgressCore& core) {
  if (core.next().kind == Kind::take) core.asked();
}

/// Trains one micro-batch of an undisturbed worker, which asks for the next one meanwhile.
void train_one(StageProgressCore& core, const BatchPosition& position) {
  ask(core);
  REQUIRE(core.next() == StageAction{Kind::wait_input, position, false});
  core.received(position, 3);
  REQUIRE(core.next().kind == Kind::forward);
  core.forwarded(48);
  ask(core);
  REQUIRE(core.next() == StageAction{Kind::backward, position, false});
  core.trained();
}

}  // namespace

TEST_CASE("a window is take, forward, backward for each micro-batch, then step and checkpoint",
          "[progress]") {
  StageProgressCore core(setup_of(false, 2));
  for (std::uint64_t w = 1; w <= 2; ++w) {
    train_one(core, at_position(w, 0));
    train_one(core, at_position(w, 1));
    REQUIRE(core.next() == StageAction{Kind::step, at_position(w, 1), false});
    core.stepped();
    REQUIRE(core.next() == StageAction{Kind::checkpoint, at_position(w, 0), false});
    core.saved();
  }
  CHECK(core.next().kind == Kind::finished);
}

TEST_CASE("one entry is asked for ahead, and none beyond the end", "[progress]") {
  StageProgressCore core(setup_of(false, 1));
  CHECK(core.next() == StageAction{Kind::take, at_position(1, 0), false});
  core.asked();
  core.received(at_position(1, 0), 3);
  core.forwarded(48);
  CHECK(core.next() == StageAction{Kind::take, at_position(1, 1), false});
  core.asked();
  core.trained();
  core.received(at_position(1, 1), 3);
  core.forwarded(48);
  CHECK(core.next() == StageAction{Kind::backward, at_position(1, 1), false});
}

TEST_CASE("an initial state that is not on disk is saved first", "[progress]") {
  auto setup = setup_of(false, 1);
  setup.save_first = true;
  StageProgressCore core(setup);
  ask(core);
  CHECK(core.next() == StageAction{Kind::checkpoint, at_position(0, 0), false});
  core.saved();
  CHECK(core.next().kind == Kind::wait_input);
}

TEST_CASE("at most two checkpoints are under way", "[progress]") {
  StageProgressCore core(setup_of(false, 9));
  for (std::uint64_t w = 1; w <= 3; ++w) {
    train_one(core, at_position(w, 0));
    train_one(core, at_position(w, 1));
    core.stepped();
    if (w < 3) core.saved();
  }
  CHECK(core.next().kind == Kind::wait_checkpoint);
  core.made_durable(WindowIndex{1});
  CHECK(core.next().kind == Kind::checkpoint);
}

TEST_CASE("a forward waits for credit and for room, unless its output is held already", "[progress]") {
  StageProgressCore core(setup_of(true, 9));
  core.asked();
  core.received(at_position(1, 0), 3);
  CHECK(core.next().kind == Kind::wait_output);  // the outbound buffer has not spoken
  core.allowance({at_position(1, 1), 1, 48, 1, 100, WindowIndex{0}});
  CHECK(core.next() == StageAction{Kind::forward, at_position(1, 0), false});  // a replay
  core.forwarded(48);
  core.asked();
  core.trained();
  core.received(at_position(1, 1), 3);
  CHECK(core.next().kind == Kind::wait_output);
  core.allowance({at_position(1, 1), 1, 48, 2, 100, WindowIndex{0}});
  CHECK(core.next() == StageAction{Kind::forward, at_position(1, 1), true});
  core.forwarded(48);
  core.asked();
  core.trained();
  core.stepped();
  core.saved();
  core.received(at_position(2, 0), 3);
  core.allowance({at_position(2, 0), 2, 96, 9, 100, WindowIndex{0}});
  CHECK(core.next().kind == Kind::wait_output);  // window 1 will be released
  core.allowance({at_position(2, 0), 2, 96, 9, 100, WindowIndex{1}});
  CHECK(core.next().kind == Kind::blocked);  // window 2 itself does not fit
}

TEST_CASE("a new life waits for room before its first output, since earlier lives tell its size",
          "[progress]") {
  StageProgressSetup setup = setup_of(true, 9);
  setup.committed = WindowIndex{2};
  StageProgressCore core(setup);
  ask(core);
  core.received(at_position(3, 0), 3);
  core.allowance({at_position(3, 0), 4, 192, 9, 192, WindowIndex{1}, 16});
  CHECK(core.next().kind == Kind::wait_output);  // window 2 will be released
  core.allowance({at_position(3, 0), 4, 192, 9, 230, WindowIndex{2}, 16});
  CHECK(core.next().kind == Kind::blocked);
  core.allowance({at_position(3, 0), 4, 192, 9, 240, WindowIndex{2}, 16});
  CHECK(core.next() == StageAction{Kind::forward, at_position(3, 0), true});
}

TEST_CASE("a run that ends earlier checkpoints the window that it ends with", "[progress]") {
  StageProgressCore core(setup_of(false, 9, 4));
  train_one(core, at_position(1, 0));
  train_one(core, at_position(1, 1));
  core.stepped();
  REQUIRE(core.next().kind == Kind::wait_input);
  core.end_at(WindowIndex{1});
  CHECK(core.next() == StageAction{Kind::checkpoint, at_position(1, 0), false});
  core.saved();
  CHECK(core.next().kind == Kind::finished);
}

TEST_CASE("calibration is forwards, targets of the last stage, fit and checkpoint, then training",
          "[progress]") {
  for (const bool last_stage : {false, true}) {
    auto setup = setup_of(!last_stage, 1);
    setup.committed = std::nullopt;
    setup.save_first = true;
    StageProgressCore core(setup);
    core.allowance({at_position(0, 0), 0, 0, 9, 1000, std::nullopt});
    for (std::uint64_t i = 0; i < 2; ++i) {
      ask(core);
      CHECK(core.next() == StageAction{Kind::wait_input, at_position(0, i), false});
      core.received(at_position(0, i), 3);
      CHECK(core.next() == StageAction{Kind::calibrate, at_position(0, i), !last_stage});
      CHECK_THROWS_AS(core.fitted(), std::logic_error);
      core.forwarded(48);
    }
    CHECK(core.next() == StageAction{Kind::take, at_position(1, 0), false});  // ahead, as ever
    ask(core);
    if (last_stage) {
      CHECK(core.next() == StageAction{Kind::hand_over, at_position(0, 1), false});
      core.handed_over();
    }
    CHECK(core.next() == StageAction{Kind::wait_targets, at_position(0, 1), false});
    CHECK(core.committed() == std::nullopt);
    core.targets_known();
    CHECK(core.next() == StageAction{Kind::fit, at_position(0, 1), false});
    core.fitted();
    CHECK(core.committed() == WindowIndex{0});
    CHECK(core.next() == StageAction{Kind::checkpoint, at_position(0, 0), false});
    core.saved();
    CHECK(core.next() == StageAction{Kind::wait_input, at_position(1, 0), false});
  }
}

TEST_CASE("targets that come early wait for the forwards", "[progress]") {
  auto setup = setup_of(false, 1);
  setup.committed = std::nullopt;
  StageProgressCore core(setup);
  core.targets_known();
  ask(core);
  CHECK(core.next().kind == Kind::wait_input);
  CHECK_THROWS_AS(core.handed_over(), std::logic_error);
}

TEST_CASE("a run that is stopped during calibration ends with it", "[progress]") {
  auto setup = setup_of(true, 9);
  setup.committed = std::nullopt;
  StageProgressCore core(setup);
  core.end_at(WindowIndex{0});
  core.allowance({at_position(0, 0), 0, 0, 9, 1000, std::nullopt});
  for (std::uint64_t i = 0; i < 2; ++i) {
    ask(core);
    core.received(at_position(0, i), 3);
    core.forwarded(48);
  }
  core.targets_known();
  core.fitted();
  CHECK(core.next().kind == Kind::checkpoint);
  core.saved();
  CHECK(core.next().kind == Kind::finished);
}

TEST_CASE("a forward of the calibration that can never have room is blocked", "[progress]") {
  auto setup = setup_of(true, 9);
  setup.committed = std::nullopt;
  StageProgressCore core(setup);
  core.allowance({at_position(0, 0), 0, 0, 9, 60, std::nullopt});
  ask(core);
  core.received(at_position(0, 0), 3);
  core.forwarded(48);
  ask(core);
  core.received(at_position(0, 1), 3);
  CHECK(core.next().kind == Kind::blocked);
}

TEST_CASE("what was not due cannot be reported as done", "[progress]") {
  StageProgressCore core(setup_of(false, 9));
  CHECK_THROWS_AS(core.forwarded(1), std::logic_error);
  CHECK_THROWS_AS(core.received(at_position(1, 0), 1), std::logic_error);
  core.asked();
  CHECK_THROWS_AS(core.received(at_position(1, 1), 1), std::logic_error);
  CHECK_THROWS_AS(core.stepped(), std::logic_error);
}

// -- Replay in batches

namespace {

/// A life that was restarted in windows of four micro-batches.
StageProgressSetup replaying_setup(std::uint64_t replay_batch, bool has_downstream) {
  StageProgressSetup setup = setup_of(has_downstream, 2);
  setup.micro_batches = [](WindowIndex) { return std::uint64_t{4}; };
  setup.replay_batch = replay_batch;
  return setup;
}

void ask_for_all(StageProgressCore& core) {
  while (core.next().kind == Kind::take) core.asked();
}

}  // namespace

TEST_CASE("a replay does those of a window together that are here, and each is reported", "[progress]") {
  StageProgressCore core(replaying_setup(3, false));
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(core.next() == StageAction{Kind::take, at_position(1, i), false});
    core.asked();
  }
  REQUIRE(core.next() == StageAction{Kind::wait_input, at_position(1, 0), false});
  for (std::uint64_t i = 0; i < 3; ++i) core.received(at_position(1, i), 3);
  REQUIRE(core.next() == StageAction{Kind::forward, at_position(1, 0), false, 3});
  core.begins_together(3);
  core.forwarded(48);
  ask_for_all(core);
  core.received(at_position(1, 3), 3);
  // What came meanwhile does not join those that have begun.
  REQUIRE(core.next() == StageAction{Kind::forward, at_position(1, 1), false});
  core.forwarded(48);
  core.forwarded(48);
  ask_for_all(core);
  REQUIRE(core.next() == StageAction{Kind::backward, at_position(1, 0), false, 3});
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(core.next().position == at_position(1, i));
    core.trained();
  }
  // The next window's entries are here, but no part of this one.
  core.received(at_position(2, 0), 3);
  REQUIRE(core.next() == StageAction{Kind::forward, at_position(1, 3), false});
  core.forwarded(48);
  ask_for_all(core);
  REQUIRE(core.next() == StageAction{Kind::backward, at_position(1, 3), false});
  core.trained();
  REQUIRE(core.next() == StageAction{Kind::step, at_position(1, 3), false});
}

TEST_CASE("a replay does no more together than there is room for", "[progress]") {
  StageProgressCore core(replaying_setup(4, true));
  ask_for_all(core);
  for (std::uint64_t i = 0; i < 4; ++i) core.received(at_position(1, i), 3);
  OutputAllowance allowance;
  allowance.next = at_position(1, 1);  // the first is there from an earlier life
  allowance.allowed_entries = 2;
  allowance.allowed_bytes = 1000;
  core.allowance(allowance);
  // How large an output is shows with the first.
  CHECK(core.next() == StageAction{Kind::forward, at_position(1, 0), false, 2});
  allowance.bytes_per_row = 16;
  core.allowance(allowance);
  CHECK(core.next() == StageAction{Kind::forward, at_position(1, 0), false, 3});
  allowance.allowed_bytes = 48;
  core.allowance(allowance);
  CHECK(core.next() == StageAction{Kind::forward, at_position(1, 0), false, 2});
}

TEST_CASE("once it has caught up, a stage takes one entry at a time", "[progress]") {
  StageProgressCore core(replaying_setup(2, false));
  ask_for_all(core);
  core.received(at_position(1, 0), 3);
  core.received(at_position(1, 1), 3);
  core.begins_together(2);
  core.forwarded(48);
  core.forwarded(48);
  core.trained();
  core.trained();
  ask_for_all(core);
  REQUIRE(core.replays());
  core.caught_up();
  CHECK_FALSE(core.replays());
  core.received(at_position(1, 2), 3);
  core.received(at_position(1, 3), 3);  // it had been asked for
  REQUIRE(core.next() == StageAction{Kind::forward, at_position(1, 2), false});
  core.forwarded(48);
  core.trained();
  CHECK(core.next() == StageAction{Kind::forward, at_position(1, 3), false});
}
