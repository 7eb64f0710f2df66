#pragma once
/// What `zerolock bench learning` has measured, and its tables and plots.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/run_folder.hpp"
#include "apps/command/train_options.hpp"
#include "apps/report/bench_table.hpp"
#include "apps/report/svg_plot.hpp"

namespace zerolock {

/// On the held-out rows, with the model's own head behind its last layer.
struct HeldOutScores {
  std::uint64_t window = 0;         // after so many updates; 0: the model as it is
  std::optional<double> accuracy;   // rows with classes
  std::optional<double> nll_label;  // the same: nats, p over the classes' answers
  double nll = 0;                   // nats for each supervised token, p over the full vocabulary
};

/// One run of one setting.
struct LearningResult {
  std::string task;
  std::string setting;
  // What settings differ in; empty or null for the model as it is.
  std::string heads;
  std::uint64_t stages = 0;
  std::string train_stages;
  std::optional<double> alpha;
  std::optional<double> learning_rate;
  std::optional<double> inner_scale;
  std::optional<std::uint64_t> seed;

  std::vector<HeldOutScores> held_out;  // by window; the last is what counts
  std::vector<double> train_losses;     // the last stage's task loss of each window, from 1
  std::optional<double> examples_per_second;

  /// Mean of the last quarter's train losses, at least of one; nothing before the first window.
  [[nodiscard]] std::optional<double> final_train_loss() const;
};

/// Reads what a finished run left in its folder. `options`: what it was made with. Throws InputError if a
/// file is missing or damaged.
LearningResult read_learning_result(const RunFolder& folder, const TrainOptions& options);

/// A row for each result, in order; the ratios are mean and standard error over seeds (root of the sample
/// variance over their number; none for a single seed) of each setting.
BenchResult learning_table(const std::vector<LearningResult>& results);
/// The same means as a table for people: a row for each setting.
BenchResult learning_means(const std::vector<LearningResult>& results);

/// The table as JSON, and "curves": an object for each task, setting and measure, with "points" over updates:
/// {"update", "mean", "least", "most", "standard_error"} over seeds.
std::string learning_json(const BenchResult& table, const std::vector<LearningResult>& results);

/// One task's results over updates: held-out accuracy and NLL, train loss. A line for each setting, the mean
/// over its seeds, with the range of its seeds around it; between evaluated windows a seed counts with what
/// lies on the straight line between them.
std::string learning_plot(const std::string& task, const std::vector<LearningResult>& results);

}  // namespace zerolock
