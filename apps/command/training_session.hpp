#pragma once
/// One session of a run: from the first window to train to the last, a stop or a failure, with everything
/// that lands in the run's folder.

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/command/cluster_runner.hpp"
#include "apps/command/metrics_file.hpp"
#include "apps/command/progress_display.hpp"
#include "apps/command/run_evaluation.hpp"
#include "apps/command/run_folder.hpp"
#include "apps/command/trace_file.hpp"
#include "apps/command/train_options.hpp"
#include "apps/command/training_inputs.hpp"
#include "apps/report/tensorboard_scalars.hpp"
#include "supervision/cluster_plan.hpp"

namespace zerolock {

/// Where a session starts.
struct StartingPoint {
  RunRecord record;  // of this session, status running
  WindowIndex first_window{1};
  std::vector<StageState> states;     // of the window before; empty: the seeded initial state
  nlohmann::ordered_json summary;     // of an earlier session, or null
  std::vector<std::string> warnings;  // what was wrong with newer checkpoints, or the journal
  /// The earlier session of a coordinator that came to no end: its executors may still be at work.
  std::optional<JournalState> recovers;
  std::vector<std::string> hosts_before;  // of each stage in an earlier session of the same cut; or none
  bool journal_damaged = false;
};

/// The record of a new run that options and inputs describe, without a run id.
RunRecord planned_record(const TrainOptions& options, const TrainingInputs& inputs);

/// A new run in a folder that has to be free. Changes nothing. Throws InputError.
StartingPoint start_new_run(const TrainOptions& options, const TrainingInputs& inputs,
                            const RunFolder& folder);

/// The continuation of the folder's run, cut again if the partition is another one. Writes the checkpoints of
/// the new cut, nothing else. Throws InputError.
StartingPoint start_resumed_run(const TrainOptions& options, const TrainingInputs& inputs,
                                const RunFolder& folder);

class TrainingSession {
 public:
  /// `resume`: the command line that goes on where the session ends, for whoever reads the log.
  TrainingSession(const TrainOptions& options, const TrainingInputs& inputs, RunFolder folder,
                  StartingPoint start, std::string resume);

  /// Trains. Returns the exit status; the summary is in summary(). `stop_requested` as in run_cluster.
  int run(const std::function<bool()>& stop_requested, const ClusterRunner& run_cluster);
  [[nodiscard]] const nlohmann::ordered_json& summary() const { return summary_; }

 private:
  /// Removes checkpoints after the starting point, and those of an earlier partition: the record now names
  /// this one. Moves a damaged journal out of the way.
  void tidy_folder() const;
  [[nodiscard]] ClusterPlan cluster_plan() const;
  [[nodiscard]] ClusterObserver observer();
  void write_results(const ClusterOutcome& outcome, double seconds);
  int report(const ClusterOutcome& outcome) const;

  const TrainOptions& options_;
  const TrainingInputs& inputs_;
  RunFolder folder_;
  StartingPoint start_;
  std::string resume_;
  MetricsFile metrics_;
  TraceFile trace_;
  ProgressDisplay progress_;
  std::unique_ptr<RunEvaluation> evaluation_;        // null without --eval-data
  std::unique_ptr<TensorboardScalars> tensorboard_;  // null without --tensorboard
  std::vector<std::uint64_t> restarts_;              // of each stage, in this session
  bool stop_asked_for_ = false;
  nlohmann::ordered_json summary_;
};

}  // namespace zerolock
