#include "tests/supervision/cluster_support.hpp"

#include <fstream>

#include "actors/checkpoint_files.hpp"
#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using Kind = ClusterOutcome::Kind;

namespace {

void check_one_restart(const ClusterResult& result, StageIndex failed,
                       const std::vector<StageState>& expected) {
  REQUIRE(result.outcome.failure.empty());
  REQUIRE(result.outcome.kind == Kind::finished);
  REQUIRE(result.heard.restarts.size() == 1);
  CHECK_THAT(result.heard.restarts.front(),
             Catch::StartsWith("stage " + std::to_string(failed.value) + " restarted from window "));
  CHECK_THAT(result.heard.restarts.front(), Catch::Contains("an injected fault"));
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CHECK(result.outcome.stages[k].incarnation == Incarnation{failed.value == k ? 2U : 1U});
    CHECK(result.outcome.stages[k].duplicates_dropped == 0);  // known outputs were not sent again
    CHECK(same_state(result.outcome.stages[k].state, expected[k]));
  }
  CHECK(result.heard.reports.size() == expected.size() * 4);  // none twice
}

}  // namespace

TEST_CASE("a worker that throws anywhere in a window changes no bit and no other stage", "[fault]") {
  const auto expected = train_in_sequence(3, 4, 3, 4);
  for (const FaultPoint point :
       {FaultPoint::entry_received, FaultPoint::forward_begin, FaultPoint::forward_end,
        FaultPoint::entry_sent, FaultPoint::backward, FaultPoint::step}) {
    for (std::uint64_t k = 0; k < 3; ++k) {
      for (std::uint64_t i = 0; i < 3; ++i) {
        if (point == FaultPoint::step && i != 2)
          continue;  // a window has one step, after its last micro-batch
        INFO(to_string(point) << ", stage " << k << ", micro-batch " << i);
        const TemporaryFolder folder;
        OneFault fault(point, StageIndex{k}, {WindowIndex{2}, i});
        ClusterCase given;
        given.fault = fault.hook();
        const ClusterResult result = run_cluster(given, folder);
        REQUIRE(fault.hit());
        check_one_restart(result, StageIndex{k}, expected);
      }
    }
  }
}

TEST_CASE("a keeper that throws takes its worker along, and changes no bit and no other stage", "[fault]") {
  const auto expected = train_in_sequence(3, 4, 3, 4);
  for (const FaultPoint point : {FaultPoint::checkpoint_temp, FaultPoint::checkpoint_rename,
                                 FaultPoint::manifest, FaultPoint::durable_ack}) {
    for (std::uint64_t k = 0; k < 3; ++k) {
      for (const std::uint64_t window : {0, 2, 4}) {
        INFO(to_string(point) << ", stage " << k << ", window " << window);
        const TemporaryFolder folder;
        OneFault fault(point, StageIndex{k}, {WindowIndex{window}, 0});
        ClusterCase given;
        given.fault = fault.hook();
        const ClusterResult result = run_cluster(given, folder);
        REQUIRE(fault.hit());
        check_one_restart(result, StageIndex{k}, expected);
      }
    }
  }
}

TEST_CASE("several stages that fail in the same window still train the same bits", "[fault]") {
  const auto expected = train_in_sequence(3, 4, 3, 4);
  for (int repetition = 0; repetition < 10; ++repetition) {
    const TemporaryFolder folder;
    std::array<std::atomic<int>, 3> left{2, 2, 2};
    ClusterCase given;
    given.plan.checkpoint_every = 2;
    given.fault = [&](FaultPoint point, StageIndex stage, Incarnation, const BatchPosition& position) {
      if (point != FaultPoint::backward || position != BatchPosition{WindowIndex{3}, stage.value}) return;
      if (left.at(stage.value).fetch_sub(1) > 0) throw std::runtime_error("an injected fault");
    };
    const ClusterResult result = run_cluster(given, folder);
    REQUIRE(result.outcome.failure.empty());
    CHECK(result.heard.restarts.size() == 6);
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(result.outcome.stages[k].incarnation == Incarnation{3});
      CHECK(same_state(result.outcome.stages[k].state, expected[k]));
    }
  }
}

TEST_CASE("a damaged checkpoint is passed over: the stage goes back further, the others go on", "[fault]") {
  const auto expected = train_in_sequence(3, 6, 3, 6);
  const TemporaryFolder folder;
  std::atomic<bool> written{false};  // stage 1 has window 3 on disk
  std::atomic<bool> hit{false};      // and it has been damaged
  std::atomic<bool> again{false};    // stage 1 trains window 3 once more
  ClusterCase given;
  given.windows = 6;
  given.fault = [&](FaultPoint point, StageIndex stage, Incarnation incarnation,
                    const BatchPosition& position) {
    if (stage == StageIndex{1} && point == FaultPoint::durable_ack && position.window == WindowIndex{3}) {
      written = true;
      written.notify_all();
    }
    // The last stage's disk holds the recovery line at window 2, so that stage 0 still keeps window 3. It
    // moves on when stage 1 has only begun to receive that window again.
    if (stage == StageIndex{2} && point == FaultPoint::checkpoint_temp && position.window == WindowIndex{3}) {
      again.wait(false);
    }
    if (stage != StageIndex{1} || point != FaultPoint::forward_begin) return;
    if (incarnation == Incarnation{2}) {
      again = true;
      again.notify_all();
    }
    if (hit || position != BatchPosition{WindowIndex{4}, 1}) return;
    written.wait(false);
    std::filesystem::resize_file(
        checkpoint_folder(folder.path(), stage, WindowIndex{3}) / "state.safetensors", 10);
    hit = true;
    throw std::runtime_error("an injected fault");
  };
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(hit);
  REQUIRE(result.outcome.failure.empty());
  REQUIRE(result.heard.restarts.size() == 1);
  CHECK_THAT(result.heard.restarts.front(),
             Catch::StartsWith("stage 1 restarted from window 2 (incarnation 2)"));
  CHECK_THAT(result.heard.restarts.front(), Catch::Contains("state.safetensors"));
  for (std::uint64_t k = 0; k < 3; ++k) {
    CHECK(same_state(result.outcome.stages[k].state, expected[k]));
    CHECK(result.outcome.stages[k].incarnation == Incarnation{k == 1 ? 2U : 1U});
  }
}

TEST_CASE("a stage that makes up for its absence in batches fails within one, and trains the same bits",
          "[fault]") {
  const auto expected = train_in_sequence(3, 4, 3, 4);
  const BatchPosition end_of_window{WindowIndex{2}, 2};
  for (const std::uint64_t replay_batch : {1, 2, 8}) {
    for (const FaultPoint point : {FaultPoint::entry_received, FaultPoint::forward_begin,
                                   FaultPoint::forward_end, FaultPoint::entry_sent, FaultPoint::backward}) {
      INFO(replay_batch << " at once, " << to_string(point));
      const TemporaryFolder folder;
      // Its first life ends when all of the window is in its buffer, its second in the middle of the batch.
      OneFault first(FaultPoint::step, StageIndex{1}, end_of_window);
      OneFault second(point, StageIndex{1}, {WindowIndex{2}, 1});
      ClusterCase given;
      given.plan.replay_batch = replay_batch;
      given.fault = [first = first.hook(), second = second.hook()](
                        FaultPoint at, StageIndex stage, Incarnation life, const BatchPosition& position) {
        first(at, stage, life, position);
        if (life == Incarnation{2}) second(at, stage, life, position);
      };
      const ClusterResult result = run_cluster(given, folder);
      REQUIRE(second.hit());
      REQUIRE(result.outcome.failure.empty());
      std::uint64_t forwards = 0;  // of the third life in that window: one span for each batch
      for (const TraceSpan& span : result.heard.spans) {
        const bool counts = span.kind == TraceSpan::Kind::forward && span.stage == StageIndex{1} &&
                            span.incarnation == Incarnation{3} && span.position.window == WindowIndex{2};
        forwards += counts ? 1 : 0;
      }
      CHECK(forwards == (replay_batch == 1 ? 3 : replay_batch == 2 ? 2 : 1));
      for (std::size_t k = 0; k < expected.size(); ++k) {
        CHECK(result.outcome.stages[k].incarnation == Incarnation{k == 1 ? 3U : 1U});
        CHECK(result.outcome.stages[k].duplicates_dropped == 0);
        CHECK(same_state(result.outcome.stages[k].state, expected[k]));
      }
    }
  }
}
