#pragma once
/// One run from its plan to its outcome, wherever its stages are.

#include <atomic>
#include <functional>
#include <memory>

#include "data/micro_batch_provider.hpp"
#include "supervision/cluster_plan.hpp"
#include "supervision/coordinator_supervisor.hpp"

namespace zerolock {

/// Runs to the last window, to a requested stop, or to a failure that restarts cannot mend. Blocks the
/// caller. `stop_requested` is polled between grants and may be set from a signal handler's thread; every
/// stage then finishes the same last window and makes it durable. The token ids of the batch source are
/// charged to `source_account`. Whatever `spawn_executors` spawns must leave the checkpoints of every durable
/// window below plan.checkpoints; `forget_executors` is called once they have ended, and lets go of what was
/// kept of them elsewhere. Once
/// `hangs` is true the actors are left behind, since a thread of them will not end: whatever they refer to
/// has to live as long as the process, which should end soon.
ClusterOutcome run_cluster(
    const ClusterPlan& plan, const std::shared_ptr<const MicroBatchProvider>& batches,
    MemoryAccount& source_account, const std::function<bool()>& stop_requested,
    const ClusterObserver& observer, SpawnExecutors spawn_executors,
    const std::function<void()>& forget_executors = [] {},
    const std::shared_ptr<const std::atomic<bool>>& hangs = nullptr);

}  // namespace zerolock
