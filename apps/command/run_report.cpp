#include "apps/command/run_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/command/text_file.hpp"
#include "apps/report/report_page.hpp"
#include "apps/report/svg_bars.hpp"
#include "apps/report/svg_plot.hpp"
#include "apps/report/trace_report.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using nlohmann::ordered_json;
using Points = std::vector<std::pair<double, double>>;

constexpr std::size_t points_max = 400;  // of a line
constexpr std::size_t lines_max = 12;    // of a plot
constexpr double mebibyte = 1024.0 * 1024.0;

bool is_there(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::exists(file, error);
}

ordered_json read_json(const std::filesystem::path& file) {
  auto json = ordered_json::parse(read_text_file(file), nullptr, false);
  if (!json.is_object()) throw InputError(file.string(), "is not a JSON object");
  return json;
}

/// Calls use(line number, object) for each line.
template <class Use>
void for_each_json_line(const std::filesystem::path& file, const Use& use) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file.string(), "cannot be read");
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const auto json = ordered_json::parse(line, nullptr, false);
    // The last line of a run that was killed may be torn.
    if (json.is_discarded() && stream.eof()) break;
    try {
      if (!json.is_object()) throw InputError("is not a JSON object");
      use(json);
    } catch (const std::exception& error) {
      throw InputError(file.string() + " line " + std::to_string(number), error.what());
    }
  }
}

double number_or_nan(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : std::nan("");
}

// -- What the page shows
// --------------------------------------------------------------------------------------------

ordered_json status_facts(const RunRecord& record, const ordered_json& summary) {
  static constexpr const char* names[] = {"running, or ended without a word", "stopped", "finished",
                                          "failed"};
  ordered_json facts = {{"status", names[static_cast<int>(record.status)]}};
  if (summary.is_object() && summary.contains("status")) facts["status"] = summary["status"];
  facts["command"] = "zerolock " + record.command;
  facts["windows saved"] = std::to_string(record.durable) + " of " + std::to_string(record.last_window);
  for (const char* key : {"examples", "examples_per_second", "wall_seconds", "adapter_sha256"}) {
    if (summary.is_object() && summary.contains(key)) facts[key] = summary[key];
  }
  facts["model"] = record.model_path;
  facts["model SHA-256"] = record.model_hash;
  facts["data"] = record.data_path;
  return facts;
}

struct Measured {
  const char* key;
  const char* label;
};
constexpr Measured measured[] = {
    {"task_loss", "task loss"}, {"consistency_loss", "consistency loss"}, {"grad_norm", "gradient norm"}};

/// Which of so many stages are drawn, evenly spread with the first and the last.
std::vector<std::size_t> drawn_stages(std::size_t stages) {
  std::vector<std::size_t> drawn;
  const std::size_t count = std::min(stages, lines_max);
  for (std::size_t i = 0; i < count; ++i) drawn.push_back(count == 1 ? 0 : i * (stages - 1) / (count - 1));
  return drawn;
}

void add_losses(ReportPage& page, const RunFolder& folder, std::size_t stages) {
  page.heading("Losses");
  if (!is_there(folder.metrics())) return page.paragraph("No window was committed.");
  std::map<std::size_t, std::map<std::uint64_t, std::array<double, std::size(measured)>>> values;
  for_each_json_line(folder.metrics(), [&](const ordered_json& line) {
    auto& row = values[line.at("stage").get<std::size_t>()][line.at("window").get<std::uint64_t>()];
    for (std::size_t i = 0; i < std::size(measured); ++i) row[i] = number_or_nan(line, measured[i].key);
  });
  if (values.empty()) return page.paragraph("No window was committed.");
  std::size_t windows = 0;
  std::vector<PlotPanel> panels;
  for (std::size_t i = 0; i < std::size(measured); ++i) {
    PlotPanel panel{measured[i].label, "window", measured[i].label, {}};
    for (const std::size_t stage : drawn_stages(stages)) {
      Points points;
      for (const auto& [window, row] : values[stage]) {
        if (std::isfinite(row[i])) points.emplace_back(static_cast<double>(window), row[i]);
      }
      windows = std::max(windows, values[stage].size());
      if (!points.empty())
        panel.lines.push_back({"stage " + std::to_string(stage), thinned(points, points_max)});
    }
    panels.push_back(std::move(panel));
  }
  page.figure(svg_plot("Losses and gradients of each window", panels));
  if (windows > points_max) {
    page.paragraph("Thinned out: each point is the mean of up to " +
                   std::to_string((windows + points_max - 1) / points_max) + " windows.");
  }
  if (stages > lines_max) {
    page.paragraph("Of " + std::to_string(stages) + " stages " + std::to_string(lines_max) + " are drawn.");
  }
}

void add_evaluations(ReportPage& page, const RunFolder& folder) {
  if (!is_there(folder.evaluations())) return;
  std::map<std::string, Points> lines;
  for_each_json_line(folder.evaluations(), [&](const ordered_json& line) {
    for (const char* key : {"accuracy", "nll", "nll_label"}) {
      const double value = number_or_nan(line, key);
      if (std::isfinite(value)) lines[key].emplace_back(line.at("window").get<double>(), value);
    }
  });
  if (lines.empty()) return;
  page.heading("Evaluations");
  std::vector<PlotPanel> panels;
  for (const auto& [name, points] : lines) {
    panels.push_back({name, "window", name, {{"whole model", thinned(points, points_max)}}});
  }
  page.figure(svg_plot("Rows of --eval-data", panels));
}

void add_memory(ReportPage& page, const ordered_json& summary) {
  page.heading("Memory");
  if (!summary.is_object() || !summary.contains("stages")) {
    return page.paragraph("No summary was written: the run came to no orderly end.");
  }
  std::vector<StackedBar> bars;
  ordered_json rows = ordered_json::array();
  for (const auto& stage : summary["stages"]) {
    StackedBar bar{"stage " + stage.at("stage").dump(), {}};
    ordered_json row = {{"stage", stage.at("stage")}};
    for (const auto& [component, bytes] : stage.at("peak_bytes").items()) {
      const double size = bytes.get<double>() / mebibyte;
      row[component + " MiB"] = size;
      if (component != "total") bar.parts.emplace_back(component, size);
    }
    if (stage.contains("pss_peak_bytes")) {
      row["process (PSS) MiB"] = stage["pss_peak_bytes"].get<double>() / mebibyte;
    }
    rows.push_back(std::move(row));
    if (bars.size() < lines_max) bars.push_back(std::move(bar));
  }
  page.figure(svg_bars("Peak memory of each stage, by component", "MiB", bars));
  page.paragraph(
      "Each component's own peak; they need not fall together, so the total's can be smaller than the sum.");
  page.table(rows);
}

void add_restarts(ReportPage& page, const RunRecord& record, const ordered_json& summary,
                  const TraceReport& trace) {
  page.heading("Restarts");
  ordered_json rows = ordered_json::array();
  for (std::size_t stage = 0; stage < record.partition.size(); ++stage) {
    const LayerRange& range = record.partition[stage];
    ordered_json row = {{"stage", stage},
                        {"layers", std::to_string(range.first) + "-" + std::to_string(range.last - 1)},
                        {"restarts", stage < record.restarts.size() ? record.restarts[stage] : 0}};
    if (summary.is_object() && summary.contains("stages") && stage < summary["stages"].size()) {
      row["incarnation"] = summary["stages"][stage].value("incarnation", ordered_json());
      row["last task loss"] = summary["stages"][stage].value("final_task_loss", ordered_json());
    }
    rows.push_back(std::move(row));
  }
  page.table(rows);
  if (!trace.lives.empty()) {
    page.paragraph("Lives of stages after their first, by the first thing that each did:");
    page.table(trace.lives);
  }
}

void add_timeline(ReportPage& page, const TraceReport& trace) {
  page.heading("Stages over time");
  if (trace.whole.empty()) return page.paragraph("No trace was written.");
  page.figure(trace.whole.svg("The whole run"));
  char width[64];
  std::snprintf(width, sizeof width, "%.3g", trace.whole.column_seconds());
  page.paragraph(std::string("Thinned out: each column is ") + width +
                 " s wide and has the colour of what took most of it. trace.json has every span; Perfetto "
                 "shows it.");
  if (!trace.excerpt.empty()) page.figure(trace.excerpt.svg(trace.excerpt_title, trace.excerpt_begin));
}

}  // namespace

Points thinned(const Points& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t together = (points.size() + most - 1) / most;
  Points means;
  for (std::size_t first = 0; first < points.size(); first += together) {
    const std::size_t end = std::min(points.size(), first + together);
    std::pair<double, double> mean{0, 0};
    for (std::size_t i = first; i < end; ++i) {
      mean.first += points[i].first / static_cast<double>(end - first);
      mean.second += points[i].second / static_cast<double>(end - first);
    }
    means.push_back(mean);
  }
  return means;
}

std::string run_report(const RunFolder& folder) {
  const RunRecord record = folder.read_record();
  const ordered_json summary = is_there(folder.summary()) ? read_json(folder.summary()) : ordered_json();
  const TraceReport trace =
      is_there(folder.trace()) ? read_trace(folder.trace(), record.durable) : TraceReport();
  try {
    ReportPage page("zerolock run " + folder.path().lexically_normal().filename().string());
    page.facts(status_facts(record, summary));
    add_losses(page, folder, record.partition.size());
    add_evaluations(page, folder);
    add_timeline(page, trace);
    add_memory(page, summary);
    add_restarts(page, record, summary, trace);
    page.heading("Configuration");
    if (is_there(folder.config())) page.verbatim(read_text_file(folder.config()));
    return page.html();
  } catch (const nlohmann::json::exception& error) {
    throw InputError(folder.summary().string(), std::string("is not a run's summary: ") + error.what());
  }
}

}  // namespace zerolock
