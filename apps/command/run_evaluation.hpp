#pragma once
/// Evaluation while a run trains: how good its adapter is every few windows, and which window's was best.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/command/run_folder.hpp"
#include "apps/command/train_options.hpp"
#include "apps/command/training_inputs.hpp"
#include "supervision/local_cluster.hpp"

namespace zerolock {

/// Evaluates the newest window that all stages have on disk, once --eval-every windows have been committed
/// since the last evaluation: one at a time, in a thread of its own with one compute thread, so that training
/// does not wait. Which windows those are therefore depends on speed. A line for each goes to
/// evaluations.jsonl; the adapter of the best window so far is kept as adapter-best. Better is a lower NLL
/// among the classes, or without classes over all supervised tokens.
class RunEvaluation {
 public:
  /// The inputs must outlive it. Keeps the earlier session's evaluations up to window `keep_through`.
  RunEvaluation(const TrainOptions& options, const TrainingInputs& inputs, const RunFolder& folder,
                WindowIndex keep_through);
  /// Waits for the evaluation under way.
  ~RunEvaluation();
  RunEvaluation(const RunEvaluation&) = delete;
  RunEvaluation& operator=(const RunEvaluation&) = delete;

  /// Of any stage, from one thread. Does not block.
  void window_committed(const WindowReport& report);
  /// Whether --early-stop says so. Any thread.
  [[nodiscard]] bool stop_wanted() const;
  /// No further evaluations; waits for the one under way.
  void finish();
  /// The same, then evaluates the finished run's last window.
  void finish(const ClusterOutcome& outcome);

  /// {"evaluations", "best_window", "best"}. After finish.
  [[nodiscard]] nlohmann::ordered_json summary() const;
  /// "2 evaluations without improvement, best window 8"
  [[nodiscard]] std::string standing() const;

 private:
  void work();
  /// States of the newest window on disk, if it is due and they can all be read.
  [[nodiscard]] std::vector<StageState> due_states(std::uint64_t due) const;
  void evaluate_states(const std::vector<StageState>& states);
  [[nodiscard]] nlohmann::ordered_json stage_scores(const std::vector<StageState>& states,
                                                    const std::map<std::string, at::Tensor>& adapter) const;
  void keep_earlier(WindowIndex keep_through);
  /// Takes a line into account; true if it is the best so far.
  bool take(const nlohmann::ordered_json& line);
  void write_lines() const;

  const TrainOptions& options_;
  const TrainingInputs& inputs_;
  RunFolder folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> committed_;  // newest window of each stage
  std::uint64_t changes_ = 0;             // of committed_'s least
  std::uint64_t last_evaluated_ = 0;
  bool ending_ = false;
  std::vector<nlohmann::ordered_json> lines_;
  std::optional<double> best_;
  std::uint64_t best_window_ = 0;
  std::uint64_t without_improvement_ = 0;
  bool stopping_ = false;  // once wanted, a stop stays wanted
  std::thread thread_;
};

}  // namespace zerolock
