/// Coordinator and executors as they talk over loopback, each with its own actors, in one test process.

#include <ATen/ATen.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "supervision/executor_run.hpp"
#include "supervision/remote_cluster.hpp"
#include "tests/supervision/cluster_support.hpp"

#include <catch2/catch.hpp>

namespace zerolock::test {
namespace {

constexpr const char* token = "a token for tests";

struct RemoteCase {
  std::uint64_t stages = 3;
  std::uint64_t windows = 4;
  std::uint64_t micro_batches = 3;
  std::uint64_t executors = 3;
  bool calibrate = false;
  BackendFactory make_backend = simulated;
  FaultHook fault;
};

struct RemoteResult {
  ClusterOutcome outcome;
  std::vector<ExecutorEnd> ends;
  std::vector<std::string> restarts;
};

ExecutorPlan executor_plan(const RemoteCase& given, const Address& coordinator, const TemporaryFolder& folder,
                           std::uint64_t index) {
  ExecutorPlan plan;
  plan.name = "node-" + std::to_string(index);
  plan.coordinator = coordinator;
  plan.token = token;
  plan.listen = {"127.0.0.1", 0};
  plan.work = folder.path() / plan.name;
  plan.prepare = [make = given.make_backend](const Preparation&) { return make; };
  plan.note = [](const std::string&) {};
  plan.fault = given.fault;
  return plan;
}

RemoteRun remote_run(const RemoteCase& given, const ClusterPlan& plan,
                     const std::shared_ptr<const MicroBatchProvider>& batches) {
  RemoteRun run;
  run.executors = given.executors;
  run.state_bytes_max = std::uint64_t{1} << 20U;
  Assignment& common = run.common;
  common.run_id = plan.run_id;
  for (std::uint64_t k = 0; k < given.stages; ++k) {
    common.partition.push_back({static_cast<std::int64_t>(k), static_cast<std::int64_t>(k + 1)});
  }
  common.last_window = plan.last_window;
  common.calibrates = calibrates(plan);
  common.micro_batches = MicroBatchCounts(
      [batches](WindowIndex window) { return batches->micro_batches(window); }, plan.last_window);
  common.depth = plan.depth;
  common.buffer_bytes_max = plan.buffer_bytes_max;
  common.rows_max = 64;
  common.sequences_max = 8;
  common.width = simulated_width;
  common.vocabulary = 1 << 20;
  return run;
}

RemoteResult run_remotely(const RemoteCase& given, const TemporaryFolder& folder) {
  ClusterPlan plan;
  plan.run_id = "a-run";
  plan.stages = given.stages;
  plan.last_window = WindowIndex{given.windows};
  plan.calibrate = given.calibrate;
  plan.checkpoints = folder.path() / "checkpoints";
  const auto batches = std::make_shared<CountingBatches>(given.windows, given.micro_batches);
  RemoteClusterOptions options;
  options.listen = {"127.0.0.1", 0};
  options.token = token;
  options.run_id = plan.run_id;
  options.note = [](const std::string&) {};
  RemoteCluster cluster(options);
  std::vector<std::future<ExecutorEnd>> executors;
  for (std::uint64_t i = 0; i < given.executors; ++i) {
    executors.push_back(
        std::async(std::launch::async, run_executor, executor_plan(given, cluster.address(), folder, i)));
  }
  RemoteResult result;
  ClusterObserver observer;
  observer.restarted = [&result](StageIndex, Incarnation, const std::string& text) {
    result.restarts.push_back(text);
  };
  MemoryAccount account;
  result.outcome = cluster.run(plan, remote_run(given, plan, batches), batches, account, {}, observer);
  for (auto& executor : executors) result.ends.push_back(executor.get());
  return result;
}

void check_same(const RemoteCase& given, const RemoteResult& result) {
  INFO(result.outcome.failure);
  REQUIRE(result.outcome.kind == ClusterOutcome::Kind::finished);
  const auto expected =
      train_in_sequence(given.stages, given.windows, given.micro_batches, given.windows, given.make_backend);
  REQUIRE(result.outcome.stages.size() == given.stages);
  for (std::uint64_t k = 0; k < given.stages; ++k) {
    INFO("stage " << k);
    CHECK(same_state(result.outcome.stages[k].state, expected[k]));
  }
  for (const ExecutorEnd& end : result.ends) {
    INFO(end.failure);
    CHECK(end.finished);
  }
}

TEST_CASE("stages on executors reach the bits of stages trained in sequence", "[remote]") {
  for (const std::uint64_t stages : {1, 2, 3, 6}) {
    INFO(stages << " stages");
    RemoteCase given;
    given.stages = stages;
    given.executors = stages;
    const TemporaryFolder folder;
    check_same(given, run_remotely(given, folder));
  }
}

TEST_CASE("fewer executors than stages host several, more leave spares", "[remote]") {
  for (const std::uint64_t executors : {1, 2, 5}) {
    INFO(executors << " executors");
    RemoteCase given;
    given.executors = executors;
    const TemporaryFolder folder;
    check_same(given, run_remotely(given, folder));
  }
}

TEST_CASE("calibration targets reach stages of other processes", "[remote]") {
  RemoteCase given;
  given.calibrate = true;
  given.make_backend = calibrating;
  const TemporaryFolder folder;
  check_same(given, run_remotely(given, folder));
}

TEST_CASE("a worker that throws on an executor changes no bit", "[remote]") {
  for (const FaultPoint point : {FaultPoint::forward_end, FaultPoint::backward, FaultPoint::step}) {
    RemoteCase given;
    OneFault fault(point, StageIndex{1}, {WindowIndex{2}, point == FaultPoint::step ? 2u : 1u});
    given.fault = fault.hook();
    const TemporaryFolder folder;
    const RemoteResult result = run_remotely(given, folder);
    check_same(given, result);
    CHECK(fault.hit());
    CHECK(result.restarts.size() == 1);
    CHECK(result.outcome.stages[0].incarnation.value == 1);
    CHECK(result.outcome.stages[2].incarnation.value == 1);
  }
}

TEST_CASE("stages are spread evenly and in order", "[remote]") {
  const auto first_of = [](const std::vector<StageIndex>& stages) { return stages.front().value; };
  const auto one_each = spread_stages(3, 3);
  CHECK(one_each[2].size() == 1);
  CHECK(first_of(one_each[2]) == 2);
  const auto several = spread_stages(5, 2);
  CHECK(several[0].size() == 3);
  CHECK(first_of(several[1]) == 3);
  CHECK(spread_stages(2, 3)[2].empty());
}

}  // namespace
}  // namespace zerolock::test
