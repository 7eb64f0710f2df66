#pragma once
/// The whole system in one process: coordinator and one executor with all stages, each stage worker a thread.

#include <functional>
#include <memory>
#include <vector>

#include "actors/core/fault_point.hpp"
#include "data/micro_batch_provider.hpp"
#include "supervision/cluster_plan.hpp"

namespace zerolock {

/// Makes a stage's backend, in the thread that will use it, each time the stage worker starts.
using BackendFactory = std::function<std::unique_ptr<StageBackend>(StageIndex, MemoryAccount&)>;

/// run_cluster with all stages in this process. `accounts` has one account per stage. After an
/// outcome that `hangs`, a thread still uses accounts, batches, backends and fault hook.
ClusterOutcome run_local_cluster(const ClusterPlan& plan, std::shared_ptr<const MicroBatchProvider> batches,
                                 const BackendFactory& make_backend,
                                 std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                                 const std::function<bool()>& stop_requested, const ClusterObserver& observer,
                                 FaultHook fault_hook = {});

}  // namespace zerolock
