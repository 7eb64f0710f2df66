#pragma once
/// The same job under different schedules, on the same runtime: rates side by side, round after round.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/schedule_figures.hpp"
#include "apps/bench/stage_calibration.hpp"
#include "apps/command/train_options.hpp"
#include "apps/report/bench_table.hpp"
#include "apps/report/svg_plot.hpp"
#include "apps/report/svg_timeline.hpp"
#include "supervision/imitated_cluster.hpp"

namespace zerolock {

enum class SplitChoice { same, tuned, both };
enum class StageCompute { automatic, real, simulated };

struct ComparisonOptions {
  std::vector<TrainingSchedule> schedules;
  std::uint64_t rounds = 3;
  SplitChoice split = SplitChoice::same;
  StageCompute compute = StageCompute::automatic;
  double speedup = 1;  // simulated devices against a core of this machine
  std::uint64_t calibration_runs = 3;
  std::vector<LinkSharing> media{LinkSharing::way};  // at least one

  void declare(OptionTable& table);
};

/// Rows are full (--seq tokens, the last one supervised), as in bench memory. Real stages compute the model;
/// simulated ones wait as long as the model's stages compute on this machine, measured once. On imitated
/// links entries and gradients weigh what the model's would in the wire type.
class ScheduleComparison {
 public:
  /// Both options must outlive it. Throws InputError for options that a comparison has no use for.
  ScheduleComparison(const TrainOptions& options, const ComparisonOptions& comparison, std::string bench);

  /// Runs every schedule --rounds times in turn and adds rows and ratios; over a link that slows anything
  /// down, once more for each further medium. The next call may differ in both.
  void measure(std::uint64_t stages, const std::string& link);

  [[nodiscard]] const BenchResult& result() const { return result_; }
  /// A few windows of every schedule in the last rounds of the latest measure().
  [[nodiscard]] const std::vector<TimelinePanel>& timelines() const { return timelines_; }

 private:
  /// What lies between the stages, as the table names it.
  struct ComparedNetwork {
    std::string link;
    LinkSharing sharing = LinkSharing::way;
  };
  /// A schedule with its cut of the layers, and what its runs gave.
  struct Contender {
    TrainingSchedule schedule;
    std::string split;  // "same" or "tuned"
    std::vector<LayerRange> partition;
    std::vector<PhaseSeconds> seconds;  // of its stages, if they are simulated
    std::vector<double> rates;          // examples a second, of each round
    std::vector<RunFigures> figures;    // of each round
  };

  [[nodiscard]] bool simulated(std::uint64_t stages) const;
  [[nodiscard]] TrainingSettings settings() const;
  StageCalibration& calibration();
  std::vector<Contender> contenders(std::uint64_t stages);
  void measure(std::vector<Contender> all, const ComparedNetwork& network);
  [[nodiscard]] BackendFactory backends(const Contender& contender) const;
  [[nodiscard]] std::uint64_t payload_bytes() const;
  [[nodiscard]] double entry_seconds(const std::string& link) const;
  static std::string text_of(const ComparedNetwork& network);
  void run(Contender& contender, const ComparedNetwork& network);
  [[nodiscard]] std::vector<TraceSpan> trace(const Contender& contender,
                                             const ComparedNetwork& network) const;
  void add_row(const Contender& contender, const ComparedNetwork& network);
  void add_ratios(const std::vector<Contender>& all, const ComparedNetwork& network);

  const TrainOptions& options_;
  const ComparisonOptions& comparison_;
  std::shared_ptr<const ModelFiles> model_;
  std::unique_ptr<StageCalibration> calibration_;  // made when first needed
  WindowIndex first_;                              // of the steady part
  WindowIndex last_;
  BenchResult result_;
  std::vector<TimelinePanel> timelines_;
};

/// A line for each schedule and split, named after it, from the rows in which `fixed` columns have the given
/// values: `y` over `x`.
std::vector<PlotLine> comparison_lines(const BenchResult& result, const std::string& x, const std::string& y,
                                       const std::map<std::string, std::string>& fixed);

/// Prints the result; with --out also writes NAME.json, timeline.svg and, if there are panels, NAME.svg with
/// that title.
void publish_comparison(const ScheduleComparison& comparison, const TrainOptions& options,
                        const std::string& title, const std::vector<PlotPanel>& panels);

}  // namespace zerolock
