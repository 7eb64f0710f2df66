#pragma once
/// What a run is to do, what it tells meanwhile, and how it ended, wherever its stages are.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/journal.hpp"
#include "actors/core/reports.hpp"
#include "actors/core/training_schedule.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

inline constexpr const char* program_version = "0.1.0";  // all processes of a run have the same

struct ClusterPlan {
  std::string run_id;
  std::uint64_t stages = 1;
  WindowIndex first_window{1};  // the first to train; resumed states belong to the one before
  WindowIndex last_window{1};
  TrainingSchedule schedule = TrainingSchedule::zerolock;  // the backends must have its gradient_reach
  /// Some stage has a readout that is fitted before training. A run from window 1 without resumed states then
  /// begins with window 0, the provider's calibration rows, of which there must be some; each stage must have
  /// room for all of their hidden states within buffer_bytes_max. A run that resumes has what was fitted in
  /// its states.
  bool calibrate = false;
  std::uint64_t depth = 4;                              // entries in flight across a boundary at most
  std::size_t buffer_bytes_max = std::size_t{1} << 30;  // of each buffer
  /// Windows granted beyond what the slowest stage has committed; 0: as many as keep all stages busy.
  std::uint64_t ahead_windows = 0;
  std::uint64_t replay_batch = 1;  // micro-batches that a stage does at once while it makes up for an absence
  std::uint64_t checkpoint_every = 1;   // windows; the last window is always made durable
  std::filesystem::path checkpoints;    // folder; one folder for each stage below it
  std::vector<StageState> resume_from;  // empty, or a state for each stage, of the window before first_window
  std::filesystem::path journal;        // file; empty: what is promised lasts as long as the process
  std::string session;                  // names what lies between two orderly ends of the run
  /// This session's journal, of a coordinator that has not come to an end: its executors may still be at
  /// work, and go on. The windows of the plan are then those of the session.
  std::optional<JournalState> recovers;
  /// The node that each stage was on in an earlier session, all of them or none: where all of these nodes
  /// have joined, the stages go there again.
  std::vector<std::string> hosts_before;
  std::uint64_t restarts_max = 5;  // of one stage within restart_period, then the run stops with the causes
  std::chrono::seconds restart_period{60};
  std::chrono::milliseconds hang_after{120'000};  // no compute step is given up before
};

/// Called from one actor, in order. Must not block.
struct ClusterObserver {
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
  MemoryPeaks peaks;
  std::uint64_t process_bytes_peak = 0;  // of the stage's own process; 0 where it shares the coordinator's
};

struct ClusterOutcome {
  enum class Kind { finished, stopped, failed } kind = Kind::failed;
  WindowIndex durable;               // the recovery line: what --resume goes on from
  std::vector<StageOutcome> stages;  // finished and stopped
  std::string failure;               // failed: the chain of causes, one line
  bool hangs = false;                // failed: a thread of this process will not end; see run_cluster
  bool bad_input = false;            // failed: `failure` is the message of an InputError: exit status 2
};

/// Whether the run begins with window 0.
bool calibrates(const ClusterPlan& plan);

}  // namespace zerolock
