#include "apps/bench/bench_theory_results.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "apps/report/svg_plot.hpp"

namespace zerolock {

namespace {

using Json = nlohmann::ordered_json;

/// Numbers of one row: of a stage, or of all together.
StageTheory together(const TheoryPoint& point) {
  return {point.loss(),           point.gradient_norm(), point.target_distance(),
          point.readout_change(), point.descent(),       point.drift()};
}

std::optional<double> over_rate(const TheoryWindow& window, double drift) {
  if (window.window == 0 || window.rate <= 0) return std::nullopt;
  return drift / (window.rate * window.rate);
}

/// `gradient_norm`: that of the window before, which the step followed.
std::optional<double> over_step(const TheoryWindow& window, double drift, double gradient_norm) {
  const double expected = window.rate * gradient_norm * gradient_norm;
  if (window.window == 0 || expected <= 0) return std::nullopt;
  return drift / expected;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json row_of(const std::string& objective, const TheoryWindow& window, const Json& stage,
            const StageTheory& now, double gradient_before) {
  const bool moved = window.window > 0;
  const auto of_move = [moved](double value) { return moved ? Json(value) : Json(); };
  return {{"objective", objective},
          {"window", window.window},
          {"stage", stage},
          {"rate", of_move(window.rate)},
          {"R", now.loss},
          {"gradient norm", now.gradient_norm},
          {"delta", now.target_distance},
          {"readout change", of_move(now.readout_change)},
          {"descent", of_move(now.descent)},
          {"drift", of_move(now.drift)},
          {"drift / rate^2", or_null(over_rate(window, now.drift))},
          {"drift / (rate x gradient^2)", or_null(over_step(window, now.drift, gradient_before))}};
}

/// The largest number of a column, or the largest magnitude, over rows of an objective, of single stages or
/// of all together.
std::optional<double> largest(const BenchResult& table, const std::string& objective,
                              const std::string& column, bool single_stages, bool magnitude = false) {
  std::optional<double> most;
  for (const Json& row : table.rows) {
    if (row["objective"] != objective || row["stage"].is_number() != single_stages) continue;
    if (!row[column].is_number()) continue;
    const double value = row[column].get<double>();
    most = std::max(most.value_or(-std::numeric_limits<double>::infinity()),
                    magnitude ? std::abs(value) : value);
  }
  return most;
}

using ValueOf = std::function<std::optional<double>(const TheoryWindow&)>;

PlotLine line_of(const std::string& name, const TheoryRun& run, const ValueOf& value_of) {
  PlotLine line{name};
  for (const TheoryWindow& window : run.windows) {
    if (const std::optional<double> value = value_of(window)) {
      line.points.emplace_back(static_cast<double>(window.window), *value);
    }
  }
  return line;
}

/// A line for each objective.
PlotPanel panel_of(const std::vector<TheoryRun>& runs, const std::string& title, const std::string& unit,
                   const ValueOf& value_of) {
  PlotPanel panel{title, "windows", unit, {}};
  for (const TheoryRun& run : runs) panel.lines.push_back(line_of(run.objective, run, value_of));
  return panel;
}

}  // namespace

BenchResult theory_table(const std::vector<TheoryRun>& runs) {
  BenchResult table;
  table.bench = "theory";
  for (const TheoryRun& run : runs) {
    const TheoryPoint* before = nullptr;
    for (const TheoryWindow& window : run.windows) {
      const std::vector<StageTheory>& stages = window.point.stages;
      for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        const double gradient = before != nullptr ? before->stages[stage].gradient_norm : 0;
        table.rows.push_back(row_of(run.objective, window, stage, stages[stage], gradient));
      }
      const double gradient = before != nullptr ? before->gradient_norm() : 0;
      table.rows.push_back(row_of(run.objective, window, "all", together(window.point), gradient));
      before = &window.point;
    }
    for (const char* column : {"drift / rate^2", "drift / (rate x gradient^2)"}) {
      table.ratios[run.objective + ": largest " + column] =
          or_null(largest(table, run.objective, column, false));
      table.ratios[run.objective + ": largest |drift|" + std::string(column).substr(5)] =
          or_null(largest(table, run.objective, column, false, true));
    }
    table.ratios[run.objective + ": largest delta of a stage"] =
        or_null(largest(table, run.objective, "delta", true));
  }
  return table;
}

BenchResult theory_summary(const BenchResult& table) {
  BenchResult summary = table;
  summary.rows = Json::array();
  for (Json row : table.rows) {
    if (row["stage"].is_number()) continue;
    row.erase("stage");
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

std::string theory_plot(const std::vector<TheoryRun>& runs) {
  const auto after_steps = [](const TheoryWindow& window, double value) {
    return window.window > 0 ? std::optional(value) : std::nullopt;
  };
  std::vector<PlotPanel> panels{
      panel_of(runs, "R, the mean local loss", "nats",
               [](const TheoryWindow& window) { return std::optional(window.point.loss()); }),
      panel_of(runs, "Norm of R's gradient", "",
               [](const TheoryWindow& window) { return std::optional(window.point.gradient_norm()); }),
      panel_of(runs, "Drift of R", "nats",
               [&](const TheoryWindow& window) { return after_steps(window, window.point.drift()); }),
      panel_of(runs, "Drift / rate^2", "",
               [](const TheoryWindow& window) { return over_rate(window, window.point.drift()); })};
  for (const TheoryRun& run : runs) {
    PlotPanel panel{"Distance to the target, " + run.objective, "windows", "nats", {}};
    const std::size_t stages = run.windows.empty() ? 0 : run.windows.front().point.stages.size();
    for (std::size_t stage = 0; stage < stages; ++stage) {
      panel.lines.push_back(
          line_of("stage " + std::to_string(stage), run, [stage](const TheoryWindow& window) {
            return std::optional(window.point.stages[stage].target_distance);
          }));
    }
    panels.push_back(std::move(panel));
  }
  return svg_plot("Local objectives over update windows", panels);
}

}  // namespace zerolock
