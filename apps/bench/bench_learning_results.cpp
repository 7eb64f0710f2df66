#include "apps/bench/bench_learning_results.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using Json = nlohmann::ordered_json;
using Curve = std::vector<std::pair<double, double>>;

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> optional_number(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? std::optional<double>(json[key].get<double>())
                                                     : std::nullopt;
}

/// Each line of a file that the run has finished writing.
void for_each_line(const std::filesystem::path& file, const std::function<void(const Json&)>& take) {
  std::istringstream stream(read_text_file(file));
  std::uint64_t number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    try {
      take(Json::parse(text));
    } catch (const Json::exception& error) {
      throw InputError(file.string() + " line " + std::to_string(number), error.what());
    }
  }
}

HeldOutScores scores_from(const Json& line) {
  return {line.at("window").get<std::uint64_t>(), optional_number(line, "accuracy"),
          optional_number(line, "nll_label"), line.at("nll").get<double>()};
}

// -- Means over seeds

/// A number of a result that is compared, by its name in tables.
struct Measure {
  const char* name;
  std::function<std::optional<double>(const LearningResult&)> of;
};

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all{
      {"accuracy", [](const LearningResult& r) { return r.held_out.back().accuracy; }},
      {"nll_label", [](const LearningResult& r) { return r.held_out.back().nll_label; }},
      {"nll", [](const LearningResult& r) { return std::optional<double>(r.held_out.back().nll); }},
      {"train loss", [](const LearningResult& r) { return r.final_train_loss(); }},
      {"examples/s", [](const LearningResult& r) { return r.examples_per_second; }}};
  return all;
}

struct MeanOverSeeds {
  std::optional<double> mean;
  std::optional<double> standard_error;
};

MeanOverSeeds mean_over_seeds(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  if (values.size() == 1) return {mean, std::nullopt};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (count - 1) / count)};
}

/// Results of one setting for one task.
struct SettingResults {
  std::string task;
  std::string setting;
  std::vector<const LearningResult*> of_seeds;

  [[nodiscard]] MeanOverSeeds mean(const Measure& measure) const {
    std::vector<double> values;
    for (const LearningResult* result : of_seeds) {
      if (const std::optional<double> value = measure.of(*result)) values.push_back(*value);
    }
    return mean_over_seeds(values);
  }
};

/// In the order in which settings first come.
std::vector<SettingResults> by_setting(const std::vector<LearningResult>& results) {
  std::vector<SettingResults> groups;
  for (const LearningResult& result : results) {
    const auto same = [&](const SettingResults& group) {
      return group.task == result.task && group.setting == result.setting;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), {result.task, result.setting, {}});
    group->of_seeds.push_back(&result);
  }
  return groups;
}

// -- Curves

double interpolated(const Curve& curve, double x) {
  const auto after =
      std::find_if(curve.begin(), curve.end(), [x](const auto& point) { return point.first >= x; });
  if (after == curve.end()) return std::numeric_limits<double>::quiet_NaN();
  if (after->first == x) return after->second;
  if (after == curve.begin()) return std::numeric_limits<double>::quiet_NaN();
  const auto before = std::prev(after);
  const double share = (x - before->first) / (after->first - before->first);
  return before->second + share * (after->second - before->second);
}

/// What the seeds of a setting have at one place of their curves.
struct SeedsAt {
  double update = 0;
  double least = 0;
  double most = 0;
  MeanOverSeeds over;
};

/// At the first seed's places.
std::vector<SeedsAt> over_seeds(const std::vector<Curve>& curves) {
  std::vector<SeedsAt> places;
  for (const auto& [x, first] : curves.front()) {
    std::vector<double> values;
    for (const Curve& curve : curves) values.push_back(interpolated(curve, x));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    places.push_back({x, *least, *most, mean_over_seeds(values)});
  }
  return places;
}

using CurveOf = std::function<Curve(const LearningResult&)>;

std::vector<SeedsAt> over_seeds(const SettingResults& group, const CurveOf& curve_of) {
  std::vector<Curve> curves;
  for (const LearningResult* result : group.of_seeds) curves.push_back(curve_of(*result));
  return over_seeds(curves);
}

PlotLine line_of(const std::string& name, const std::vector<SeedsAt>& places) {
  PlotLine line{name, {}, {}};
  for (const SeedsAt& place : places) {
    line.points.emplace_back(place.update, *place.over.mean);
    if (place.over.standard_error) line.band.push_back({place.update, place.least, place.most});
  }
  return line;
}

CurveOf held_out_curve(std::function<std::optional<double>(const HeldOutScores&)> value_of) {
  return [value_of = std::move(value_of)](const LearningResult& result) {
    Curve curve;
    for (const HeldOutScores& scores : result.held_out) {
      if (const std::optional<double> value = value_of(scores)) {
        curve.emplace_back(static_cast<double>(scores.window), *value);
      }
    }
    return curve;
  };
}

Curve train_loss_curve(const LearningResult& result) {
  Curve curve;
  for (std::size_t i = 0; i < result.train_losses.size(); ++i) {
    curve.emplace_back(static_cast<double>(i + 1), result.train_losses[i]);
  }
  return curve;
}

/// A number that changes over updates.
struct CurveMeasure {
  const char* name;  // in JSON
  const char* title;
  const char* unit;
  CurveOf of;
};

/// Those that rows with classes, or without, have.
std::vector<CurveMeasure> curve_measures(bool classes) {
  const CurveMeasure train_loss{"train_loss", "Train loss of the last stage", "nats", train_loss_curve};
  const CurveMeasure nll{
      "nll", "Held-out NLL, full vocabulary", "nats per token",
      held_out_curve([](const HeldOutScores& scores) { return std::optional(scores.nll); })};
  if (!classes) return {nll, train_loss};
  return {{"accuracy", "Held-out accuracy", "share of rows",
           held_out_curve([](const HeldOutScores& scores) { return scores.accuracy; })},
          {"nll_label", "Held-out NLL among the labels", "nats",
           held_out_curve([](const HeldOutScores& scores) { return scores.nll_label; })},
          nll,
          train_loss};
}

bool has_classes(const SettingResults& group) {
  return group.of_seeds.front()->held_out.back().accuracy.has_value();
}

/// The settings of a task, or of all, that were trained.
std::vector<SettingResults> trained_settings(const std::vector<LearningResult>& results) {
  std::vector<SettingResults> groups = by_setting(results);
  std::erase_if(groups,
                [](const SettingResults& group) { return group.of_seeds.front()->train_losses.empty(); });
  return groups;
}

Json points_json(const std::vector<SeedsAt>& places) {
  Json points = Json::array();
  for (const SeedsAt& place : places) {
    points.push_back({{"update", place.update},
                      {"mean", or_null(place.over.mean)},
                      {"least", place.least},
                      {"most", place.most},
                      {"standard_error", or_null(place.over.standard_error)}});
  }
  return points;
}

}  // namespace

std::optional<double> LearningResult::final_train_loss() const {
  if (train_losses.empty()) return std::nullopt;
  const std::size_t count = std::max<std::size_t>(1, train_losses.size() / 4);
  double sum = 0;
  for (std::size_t i = train_losses.size() - count; i < train_losses.size(); ++i) sum += train_losses[i];
  return sum / static_cast<double>(count);
}

LearningResult read_learning_result(const RunFolder& folder, const TrainOptions& options) {
  LearningResult result;
  result.stages = options.stage_count();
  result.heads = heads_text(options.inner_head, options.last_head);
  result.train_stages = options.train_stages.text();
  result.alpha = options.settings.loss.alpha;
  result.learning_rate = options.settings.optimizer.learning_rate;
  result.inner_scale = options.settings.optimizer.inner_learning_rate_scale;
  result.seed = options.seed;
  for_each_line(folder.evaluations(),
                [&](const Json& line) { result.held_out.push_back(scores_from(line)); });
  if (result.held_out.empty()) throw InputError(folder.evaluations().string(), "holds no evaluation");
  for_each_line(folder.metrics(), [&](const Json& line) {
    if (line.at("stage").get<std::uint64_t>() + 1 != result.stages) return;
    result.train_losses.push_back(line.at("task_loss").get<double>());
  });
  const Json summary = Json::parse(read_text_file(folder.summary()), nullptr, false);
  if (!summary.is_object()) throw InputError(folder.summary().string(), "is not a JSON object");
  result.examples_per_second = optional_number(summary, "examples_per_second");
  return result;
}

BenchResult learning_table(const std::vector<LearningResult>& results) {
  BenchResult table;
  table.bench = "learning";
  for (const LearningResult& result : results) {
    Json row = {{"task", result.task},
                {"setting", result.setting},
                {"heads", result.heads},
                {"stages", result.stages},
                {"train stages", result.train_stages},
                {"alpha", or_null(result.alpha)},
                {"lr", or_null(result.learning_rate)},
                {"inner scale", or_null(result.inner_scale)},
                {"seed", result.seed ? Json(*result.seed) : Json()}};
    for (const Measure& measure : measures()) row[measure.name] = or_null(measure.of(result));
    table.rows.push_back(row);
  }
  for (const SettingResults& group : by_setting(results)) {
    for (const Measure& measure : measures()) {
      const MeanOverSeeds over = group.mean(measure);
      const std::string name = group.task + ", " + group.setting + ": " + measure.name;
      if (over.mean) table.ratios[name] = *over.mean;
      if (over.standard_error) table.ratios[name + ", s.e."] = *over.standard_error;
    }
  }
  return table;
}

BenchResult learning_means(const std::vector<LearningResult>& results) {
  BenchResult table;
  for (const SettingResults& group : by_setting(results)) {
    Json row = {{"task", group.task}, {"setting", group.setting}, {"seeds", group.of_seeds.size()}};
    for (const Measure& measure : measures()) {
      const MeanOverSeeds over = group.mean(measure);
      row[measure.name] = or_null(over.mean);
      row[std::string("+- ") + measure.name] = or_null(over.standard_error);
    }
    table.rows.push_back(row);
  }
  return table;
}

std::string learning_json(const BenchResult& table, const std::vector<LearningResult>& results) {
  Json json = Json::parse(table.to_json());
  json["curves"] = Json::array();
  for (const SettingResults& group : trained_settings(results)) {
    for (const CurveMeasure& measure : curve_measures(has_classes(group))) {
      json["curves"].push_back({{"task", group.task},
                                {"setting", group.setting},
                                {"measure", measure.name},
                                {"seeds", group.of_seeds.size()},
                                {"points", points_json(over_seeds(group, measure.of))}});
    }
  }
  return json.dump() + "\n";
}

std::string learning_plot(const std::string& task, const std::vector<LearningResult>& results) {
  std::vector<SettingResults> groups = trained_settings(results);
  std::erase_if(groups, [&task](const SettingResults& group) { return group.task != task; });
  std::vector<PlotPanel> panels;
  const bool classes = !groups.empty() && has_classes(groups.front());
  for (const CurveMeasure& measure : curve_measures(classes)) {
    PlotPanel panel{measure.title, "updates", measure.unit, {}};
    for (const SettingResults& group : groups) {
      panel.lines.push_back(line_of(group.setting, over_seeds(group, measure.of)));
    }
    panels.push_back(std::move(panel));
  }
  return svg_plot("Learning: " + task, panels);
}

}  // namespace zerolock
