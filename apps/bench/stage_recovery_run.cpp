#include "apps/bench/stage_recovery_run.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "actors/checkpoint_files.hpp"
#include "apps/command/child_processes.hpp"
#include "apps/command/cluster_options.hpp"
#include "apps/command/traffic_file.hpp"
#include "supervision/remote_cluster.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::hours patience{1};
constexpr std::uint64_t slack_bytes = std::uint64_t{16} << 20U;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// The stage's worker stands still there until it is released. Then its process is killed; or it throws, so
/// that its next life begins at that moment.
std::vector<Fault> faults_of(const RecoveryShape& shape, StageFailure failure) {
  Fault fault;
  fault.stage = StageIndex{shape.failing_stage};
  fault.point = FaultPoint::forward_begin;
  fault.window = shape.first_missed();
  fault.micro_batch = 0;
  fault.kind = FaultKind::hang;
  std::vector<Fault> faults{fault};
  fault.kind = failure == StageFailure::process_killed ? FaultKind::sigkill : FaultKind::throws;
  faults.push_back(fault);
  return faults;
}

RemoteRun remote_run(const RecoveryShape& shape, const ClusterPlan& plan, const MicroBatchProvider& batches,
                     StageFailure failure) {
  RemoteRun run;
  run.executors = shape.stages;
  run.state_bytes_max = static_cast<std::uint64_t>(shape.compute.state_bytes) + slack_bytes;
  run.absence_limit = run.vacancy_limit = patience;
  Assignment& common = run.common;
  common.run_id = plan.run_id;
  for (std::uint64_t stage = 0; stage < shape.stages; ++stage) {
    const auto layer = static_cast<std::int64_t>(stage);
    common.partition.push_back({layer, layer + 1});
  }
  common.last_window = plan.last_window;
  common.micro_batches = MicroBatchCounts(
      [&batches](WindowIndex window) { return batches.micro_batches(window); }, batches.last_window());
  common.hang_after_milliseconds = static_cast<std::uint64_t>(plan.hang_after.count());
  common.faults = faults_of(shape, failure);
  common.depth = plan.depth;
  common.buffer_bytes_max = plan.buffer_bytes_max;
  common.rows_max = shape.rows;
  common.sequences_max = 1;
  common.width = shape.width;
  common.vocabulary = RecoveryShape::vocabulary;
  common.simulated = shape.compute;
  return run;
}

RemoteClusterOptions cluster_options(const std::string& run_id) {
  RemoteClusterOptions options;
  options.listen = {"127.0.0.1", 0};
  options.token = new_token();
  options.run_id = run_id;
  options.note = [](const std::string& line) { spdlog::info("{}", line); };
  return options;
}

/// What the run's own threads tell, each in its time.
struct Moments {
  std::optional<Clock::time_point> let_go;     // the stage may come back
  std::optional<Clock::time_point> came_back;  // its new life begins
  std::optional<Clock::time_point> caught_up;  // the last stage has committed the last missed window
  std::uint64_t restarts = 0;                  // of the stage that failed
  std::vector<std::string> other_ends;         // of stages and processes that should not have ended
};

class StageRecoveryRun {
 public:
  StageRecoveryRun(const RecoveryShape& shape, StageFailure failure, const std::filesystem::path& folder)
      : shape_(shape),
        failure_(failure),
        folder_(folder),
        options_(cluster_options("bench-recovery")),
        cluster_(options_),
        executors_([this](const std::string& name, const std::string& end) { return ended(name, end); }) {}

  RecoveryMeasure measure() {
    for (std::uint64_t stage = 0; stage < shape_.stages; ++stage) start_executor(stage);
    ClusterPlan plan = shape_.plan();
    plan.checkpoints = folder_ / "checkpoints";
    const auto batches = shape_.batches();
    MemoryAccount source_account;
    const ClusterOutcome outcome = cluster_.run(
        plan, remote_run(shape_, plan, *batches, failure_), batches, source_account,
        [this, &plan] {
          kill_when_durable(plan.checkpoints);
          return false;
        },
        observer());
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    executors_.finish();
    if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
    return result();
  }

 private:
  static std::string name_of(std::uint64_t stage) { return "stage-" + std::to_string(stage); }
  [[nodiscard]] std::filesystem::path traffic_of(std::uint64_t stage) const {
    return folder_ / (name_of(stage) + ".traffic");
  }

  void start_executor(std::uint64_t stage) {
    const std::string name = name_of(stage);
    executors_.start(name,
                     {"executor", "--join", cluster_.address().text(), "--name", name, "--work",
                      (folder_ / name).string(), "--traffic", traffic_of(stage).string(), "--gflops", "1",
                      "--end-with-parent", "--log-level", "warn"},
                     {{token_variable, options_.token}});
  }

  /// The failure is that of a stage whose state is safe: the checkpoint of its last window has reached the
  /// coordinator. Looked at now and then, as often as for a stop.
  void kill_when_durable(const std::filesystem::path& checkpoints) {
    const StageIndex stage{shape_.failing_stage};
    const WindowIndex before{shape_.windows_before};
    if (failure_ != StageFailure::process_killed || killed_ ||
        checkpoint_windows(checkpoints, stage).empty() ||
        !verify_checkpoint(checkpoints, stage, before).empty()) {
      return;
    }
    killed_ = true;
    release();
  }

  void release() {
    Fault release;
    release.kind = FaultKind::release;
    release.stage = StageIndex{shape_.failing_stage};
    cluster_.inject(release);
  }

  /// The one that was to be killed is started again when its stage may come back.
  bool ended(const std::string& name, const std::string& end) {
    cluster_.lost(name, "the process of executor " + name + " " + end);
    std::unique_lock lock(mutex_);
    const bool meant =
        failure_ == StageFailure::process_killed && name == name_of(shape_.failing_stage) && !moments_.let_go;
    if (!meant) {
      moments_.other_ends.push_back("executor " + name + " " + end);
      return true;
    }
    changed_.wait_for(lock, patience, [this] { return over_ || inputs_made_; });
    moments_.let_go = Clock::now();
    return !over_;
  }

  ClusterObserver observer() {
    ClusterObserver observer;
    observer.window_committed = [this](const WindowReport& report) { committed(report); };
    observer.restarted = [this](StageIndex stage, Incarnation, const std::string& message) {
      const std::lock_guard lock(mutex_);
      if (stage.value != shape_.failing_stage) {
        moments_.other_ends.push_back(message);
        return;
      }
      ++moments_.restarts;
      moments_.came_back = Clock::now();
    };
    observer.span = [this](const TraceSpan& span) {
      const std::lock_guard lock(mutex_);
      spans_.push_back(span);
    };
    return observer;
  }

  void committed(const WindowReport& report) {
    const std::lock_guard lock(mutex_);
    if (report.window != shape_.last_missed()) return;
    if (report.stage.value + 1 == shape_.stages) moments_.caught_up = Clock::now();
    if (report.stage.value + 1 != shape_.failing_stage) return;
    inputs_made_ = true;
    changed_.notify_all();
    if (failure_ != StageFailure::worker_died) return;
    moments_.let_go = Clock::now();
    release();
  }

  [[nodiscard]] RecoveryMeasure result() {
    const std::lock_guard lock(mutex_);
    if (!moments_.other_ends.empty())
      throw RunError("a part that should have gone on did not: " + moments_.other_ends.front());
    if (!moments_.let_go || !moments_.came_back || !moments_.caught_up || moments_.restarts != 1)
      throw RunError("the stage did not fail and come back once");
    RecoveryMeasure measure;
    measure.seconds = measure.seconds_to_last_stage =
        seconds_between(*moments_.came_back, *moments_.caught_up);
    for (std::uint64_t stage = 0; stage < shape_.stages; ++stage) count(stage, measure);
    measure.spans = std::move(spans_);
    return measure;
  }

  /// What came into a stage's process, and what of its states went out.
  void count(std::uint64_t stage, RecoveryMeasure& measure) const {
    std::set<BatchPosition> known;
    for (const TrafficRecord& record : read_traffic(traffic_of(stage))) {
      const TrafficItem& item = record.item;
      const bool later = record.time >= *moments_.let_go;
      if (item.kind == TrafficItem::Kind::state_given && later) measure.state_bytes += item.payload_bytes;
      if (!shape_.missed(item.position.window)) continue;
      if (item.kind == TrafficItem::Kind::state_copied && stage >= shape_.failing_stage) {
        measure.state_bytes += item.payload_bytes;
      }
      if (item.kind != TrafficItem::Kind::entry || stage == 0) continue;
      const bool again = !known.insert(item.position).second;
      if (!later || record.time > *moments_.caught_up) continue;
      measure.moved.add(item.payload_bytes, item.wire_bytes);
      if (again) measure.moved_again.add(item.payload_bytes, item.wire_bytes);
    }
  }

  RecoveryShape shape_;
  StageFailure failure_;
  std::filesystem::path folder_;
  RemoteClusterOptions options_;
  RemoteCluster cluster_;
  bool killed_ = false;  // of the thread that runs the cluster
  std::mutex mutex_;
  std::condition_variable changed_;
  bool inputs_made_ = false;  // the stage before has trained the last missed window; under mutex_, as below
  bool over_ = false;
  Moments moments_;
  std::vector<TraceSpan> spans_;
  ChildProcesses executors_;  // last: its threads use the others
};

}  // namespace

RecoveryMeasure measure_stage_recovery(const RecoveryShape& shape, StageFailure failure,
                                       const std::filesystem::path& folder) {
  ZEROLOCK_INVARIANT(shape.failing_stage > 0 && shape.failing_stage + 1 < shape.stages,
                     "a stage with one before and one behind it fails");
  return StageRecoveryRun(shape, failure, folder).measure();
}

}  // namespace zerolock
