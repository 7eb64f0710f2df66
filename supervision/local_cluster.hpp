#pragma once
/// The whole system in one process: coordinator and one executor with all stages, each stage worker a thread.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/core/fault_point.hpp"
#include "actors/core/reports.hpp"
#include "data/micro_batch_provider.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Makes a stage's backend, in the thread that will use it, each time the stage worker starts.
using BackendFactory = std::function<std::unique_ptr<StageBackend>(StageIndex, MemoryAccount&)>;

struct LocalClusterPlan {
  std::string run_id;
  std::uint64_t stages = 1;
  WindowIndex first_window{1};  // the first to train; resumed states belong to the one before
  WindowIndex last_window{1};
  /// Some stage has a readout that is fitted before training. A run from window 1 without resumed states then
  /// begins with window 0, the provider's calibration rows, of which there must be some; each stage must have
  /// room for all of their hidden states within buffer_bytes_max. A run that resumes has what was fitted in
  /// its states.
  bool calibrate = false;
  std::uint64_t depth = 4;                              // entries in flight across a boundary at most
  std::size_t buffer_bytes_max = std::size_t{1} << 30;  // of each buffer
  std::uint64_t checkpoint_every = 1;                   // windows; the last window is always made durable
  std::filesystem::path checkpoints;                    // folder; one folder for each stage below it
  std::vector<StageState> resume_from;  // empty, or a state for each stage, of the window before first_window
  std::uint64_t restarts_max = 5;  // of one stage within restart_period, then the run stops with the causes
  std::chrono::seconds restart_period{60};
};

/// Called from one actor, in order. Must not block.
struct LocalClusterObserver {
  std::function<void(const WindowReport&)> window_committed = [](const WindowReport&) {};
  /// The stage's calibration is durable and will not be repeated. Once for each stage of a run that
  /// calibrates.
  std::function<void(StageIndex)> calibrated = [](StageIndex) {};
  std::function<void(const TraceSpan&)> span = [](const TraceSpan&) {};
  /// "stage 1 restarted from window 3 (incarnation 2): CAUSE", or "stage 1 restarted its calibration (...):
  /// CAUSE"
  std::function<void(StageIndex, Incarnation, const std::string&)> restarted = [](StageIndex, Incarnation,
                                                                                  const std::string&) {};
};

struct StageOutcome {
  Incarnation incarnation;
  StageState state;                      // of the last committed window
  std::uint64_t duplicates_dropped = 0;  // entries that arrived again and changed nothing
};

struct LocalClusterOutcome {
  enum class Kind { finished, stopped, failed } kind = Kind::failed;
  WindowIndex durable;               // the recovery line: what --resume goes on from
  std::vector<StageOutcome> stages;  // finished and stopped
  std::string failure;               // failed: the chain of causes, one line
  bool bad_input = false;            // failed: `failure` is the message of an InputError: exit status 2
};

/// Runs to the last window, to a requested stop, or to a failure that restarts cannot mend. Blocks the
/// caller. `accounts` has one account per stage. `stop_requested` is polled between grants and may be set
/// from a signal handler's thread; every stage then finishes the same last window and makes it durable.
LocalClusterOutcome run_local_cluster(const LocalClusterPlan& plan,
                                      std::shared_ptr<const MicroBatchProvider> batches,
                                      const BackendFactory& make_backend,
                                      std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                                      const std::function<bool()>& stop_requested,
                                      const LocalClusterObserver& observer, FaultHook fault_hook = {});

}  // namespace zerolock
