#include "supervision/local_cluster.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "supervision/cluster_run.hpp"
#include "supervision/executor_supervisor.hpp"
#include "supervision/imitated_cluster.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

StageCommons stage_commons(const ClusterPlan& plan, const std::shared_ptr<const MicroBatchProvider>& batches,
                           const FaultHook& fault_hook) {
  StageCommons commons;
  commons.stages = plan.stages;
  commons.first_window = plan.first_window;
  commons.calibrates = calibrates(plan);
  commons.checkpoints = {plan.checkpoint_every,
                         std::max(plan.last_window, WindowIndex{plan.first_window.value - 1})};
  commons.schedule = plan.schedule;
  commons.micro_batches = [batches](WindowIndex window) { return batches->micro_batches(window); };
  commons.depth = plan.depth;
  commons.buffer_bytes_max = plan.buffer_bytes_max;
  commons.replay_batch = plan.replay_batch;
  commons.checkpoint_root = plan.checkpoints;
  commons.intensity.restarts_max = plan.restarts_max;
  commons.intensity.period = plan.restart_period;
  commons.run_start = std::chrono::steady_clock::now();
  commons.fault = fault_hook;
  commons.compute_limits.floor = plan.hang_after;
  return commons;
}

std::vector<StageSupervisorSetup> stage_setups(const ClusterPlan& plan, const BackendFactory& make_backend,
                                               std::vector<std::unique_ptr<MemoryAccount>>& accounts) {
  std::vector<StageSupervisorSetup> stages;
  for (std::uint64_t k = 0; k < plan.stages; ++k) {
    StageSupervisorSetup stage;
    stage.stage = StageIndex{k};
    stage.account = accounts[k].get();
    stage.make_backend = [make_backend, index = StageIndex{k}, account = accounts[k].get()] {
      return make_backend(index, *account);
    };
    if (!plan.resume_from.empty())
      stage.initial.state = std::make_shared<const StageState>(plan.resume_from[k]);
    stages.push_back(std::move(stage));
  }
  return stages;
}

/// `imitate`: see ExecutorSetup.
ClusterOutcome run_here(const ClusterPlan& plan, const std::shared_ptr<const MicroBatchProvider>& batches,
                        const BackendFactory& make_backend,
                        std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                        const std::function<bool()>& stop_requested, const ClusterObserver& observer,
                        const FaultHook& fault_hook, const SpawnImitation& imitate) {
  ZEROLOCK_INVARIANT(plan.stages > 0 && accounts.size() == plan.stages, "one account for each stage");
  const auto hangs = std::make_shared<std::atomic<bool>>(false);
  const auto spawn = [&](caf::local_actor& parent, const CoordinatorPorts& ports) -> ExecutorsActor {
    ExecutorSetup executor;
    executor.card.name = "local";
    executor.card.version = program_version;
    executor.card.cores = std::max(1u, std::thread::hardware_concurrency());
    StageCommons commons = stage_commons(plan, batches, fault_hook);
    commons.hangs = hangs;
    commons.recorder = ports.recorder;
    commons.scheduler = ports.scheduler;
    commons.targets = ports.targets;
    executor.commons = std::make_shared<const StageCommons>(std::move(commons));
    executor.stages = stage_setups(plan, make_backend, accounts);
    executor.membership = ports.membership;
    executor.source = ports.source;
    executor.imitate = imitate;
    return spawn_executor_supervisor(parent, std::move(executor));
  };
  return run_cluster(
      plan, batches, *accounts.front(), stop_requested, observer, spawn, [] {}, hangs);
}

}  // namespace

ClusterOutcome run_local_cluster(const ClusterPlan& plan, std::shared_ptr<const MicroBatchProvider> batches,
                                 const BackendFactory& make_backend,
                                 std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                                 const std::function<bool()>& stop_requested, const ClusterObserver& observer,
                                 FaultHook fault_hook) {
  return run_here(plan, batches, make_backend, accounts, stop_requested, observer, fault_hook, {});
}

ClusterOutcome run_imitated_cluster(const ImitatedNetwork& network, const ClusterPlan& plan,
                                    std::shared_ptr<const MicroBatchProvider> batches,
                                    const BackendFactory& make_backend,
                                    std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                                    const std::function<bool()>& stop_requested,
                                    const ClusterObserver& observer, FaultHook fault_hook) {
  const std::vector<BoundaryQueues> queues = boundary_queues(network.profile, network.sharing, plan.stages);
  const SpawnImitation imitate = [&](caf::local_actor& parent, StageIndex boundary) {
    return spawn_imitated_link(parent,
                               {network.profile, queues.at(boundary.value - 1), network.payload_bytes});
  };
  return run_here(plan, batches, make_backend, accounts, stop_requested, observer, fault_hook, imitate);
}

}  // namespace zerolock
