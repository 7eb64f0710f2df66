#include "tests/supervision/remote_support.hpp"

#include <future>

#include <catch2/catch.hpp>

namespace zerolock::test {
namespace {

constexpr const char* token = "a token for tests";

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
  plan.link = given.link;
  return plan;
}

RemoteRun remote_run(const RemoteCase& given, const ClusterPlan& plan,
                     const std::shared_ptr<const MicroBatchProvider>& batches) {
  RemoteRun run;
  run.executors = given.executors;
  run.link = given.link;
  run.places = given.places;
  run.vacancy_limit = given.vacancy_limit;
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
  common.width = given.width;
  common.vocabulary = 1 << 20;
  return run;
}

}  // namespace

RemoteResult run_remotely(const RemoteCase& given, const TemporaryFolder& folder) {
  ClusterPlan plan;
  plan.run_id = "a-run";
  plan.stages = given.stages;
  plan.last_window = WindowIndex{given.windows};
  plan.calibrate = given.calibrate;
  plan.depth = given.depth;
  plan.buffer_bytes_max = given.buffer_bytes_max;
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
  result.coordinator_port = cluster.address().port;
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

}  // namespace zerolock::test
