// The comparison of ways to train: its settings, its means, its plots, and the runs that it makes.

#include <ATen/ATen.h>

#include "tensors/files/safetensors.hpp"
// After LibTorch: Catch's macros must win over those of its logging.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/bench/bench_learning_results.hpp"
#include "apps/bench/bench_learning_settings.hpp"
#include "apps/report/svg_plot.hpp"
#include "command_process.hpp"
#include "data/csv.hpp"
#include "refusal.hpp"
#include "tensors/base/error.hpp"
#include "tiny_model.hpp"

using namespace zerolock;
using namespace zerolock::testing;
using nlohmann::json;

namespace {

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

LearningSetting setting(LearningTask task, const std::string& name) {
  return chosen_settings(task, {name}, false).front();
}

LearningResult result(const std::string& name, std::uint64_t seed, double accuracy) {
  LearningResult made;
  made.task = "classification";
  made.setting = name;
  made.seed = seed;
  made.held_out = {{0, 0.25, 1.4, 5.0}, {4, accuracy, 0.5, 0.6}};
  made.train_losses = {4, 3, 2, 1};
  made.examples_per_second = 7;
  return made;
}

std::vector<std::string> bench(const TinyWorkplace& place, const std::vector<std::string>& more) {
  const std::vector<std::string> arguments{"bench",
                                           "learning",
                                           "--model",
                                           place.model(),
                                           "--data",
                                           place.rows(),
                                           "--eval-data",
                                           place.rows(),
                                           "--seq",
                                           "64",
                                           "--batch",
                                           "2",
                                           "--out",
                                           place.text_path("bench"),
                                           "--json",
                                           "--eval-every",
                                           "2"};
  return arguments + more;
}

const std::vector<std::string> classes{"--task", "classification", "--labels", "up,no,hi,go"};

int run_study_data(const std::string& source, const std::string& out, const std::string& errors) {
  const std::string script = std::string(ZEROLOCK_TEST_FIXTURES) + "/../../scripts/study-data";
  return std::system(("'" + script + "' '" + source + "' '" + out + "' 2>'" + errors + "'").c_str());
}

std::vector<std::vector<std::string>> csv_fields(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  CsvReader reader(text);
  std::vector<std::vector<std::string>> rows;
  while (const auto row = reader.next()) rows.push_back(row->fields);
  return rows;
}

}  // namespace

TEST_CASE("axes have round numbers around all values") {
  CHECK(axis_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(axis_ticks(0, 32, 5).back() == 40);
  const std::vector<double> shares = axis_ticks(0.635, 0.86, 5);
  CHECK(shares.front() == Approx(0.6));
  CHECK(shares.back() == Approx(0.9));
  CHECK(axis_ticks(-3, -1, 2) == std::vector<double>{-3, -2, -1});
  const std::vector<double> one = axis_ticks(5, 5, 5);
  CHECK(one.front() < 5);
  CHECK(one.back() > 5);
}

TEST_CASE("a plot holds its lines, leaves out what is not finite and escapes names") {
  const double missing = std::numeric_limits<double>::quiet_NaN();
  const PlotPanel panel{
      "Left & right", "x", "y", {{"a<b", {{0, 0}, {1, missing}, {2, 10}}}, {"c", {{0, 5}}}}};
  const std::string svg = svg_plot("Title", {panel, {"Empty", "x", "y", {{"c", {}}}}});
  CHECK(count_of("<svg", svg) == 1);
  CHECK(svg.find("</svg>") != std::string::npos);
  CHECK(svg.find("Left &amp; right") != std::string::npos);
  CHECK(count_of("a&lt;b", svg) == 2);  // the line and the legend
  CHECK(svg.find("a<b") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(count_of("nothing measured", svg) == 1);
  // Axes of 340 by 240 pixels: the line goes from the lower left to the upper right corner.
  CHECK(svg.find("points=\"62.00,302.00 402.00,62.00\"") != std::string::npos);
}

TEST_CASE("settings are the recipes with what their names say") {
  TrainOptions base;
  base.stages = 3;
  const auto classification = LearningTask::classification;
  const TrainOptions whole = setting(classification, "backpropagation").applied_to(base, classification);
  CHECK(whole.stage_count() == 1);
  CHECK(whole.schedule == TrainingSchedule::bp);
  CHECK(heads_text(whole.inner_head, whole.last_head) == "static");
  CHECK(whole.settings.optimizer.learning_rate == 3e-3);
  const TrainOptions last = setting(classification, "last-only-restricted").applied_to(base, classification);
  CHECK(last.stage_count() == 3);
  CHECK(last.train_stages.text() == "last");
  CHECK(heads_text(last.inner_head, last.last_head) == "inner=static,last=restricted");
  CHECK(last.settings.optimizer.learning_rate == 3e-3);
  const TrainOptions paper = setting(classification, "paper").applied_to(base, classification);
  CHECK(paper.settings.loss.alpha == 0.5);
  CHECK(paper.settings.optimizer.learning_rate == 1e-4);
  const auto free_text = LearningTask::free_text;
  const TrainOptions recipe = setting(free_text, "recipe").applied_to(base, free_text);
  CHECK(heads_text(recipe.inner_head, recipe.last_head) == "inner=calibrated:full,last=static");
  CHECK(recipe.settings.optimizer.inner_learning_rate_scale == 0.05);
  const TrainOptions even = setting(free_text, "recipe-even").applied_to(base, free_text);
  CHECK(even.settings.optimizer.inner_learning_rate_scale == 1);

  CHECK(chosen_settings(free_text, {}, false).size() == 3);
  CHECK(chosen_settings(free_text, {"adapter", "recipe"}, true).size() == 1);
  CHECK_THROWS_WITH(chosen_settings(free_text, {"adapter"}, false),
                    Catch::Contains("--settings: 'adapter' is no setting for free text"));
  CHECK_THROWS_WITH(chosen_settings(free_text, {"recpie"}, true), Catch::Contains("did you mean recipe?"));
  CHECK_THROWS_AS(chosen_settings(free_text, {"recipe", "recipe"}, false), InputError);

  // Backpropagation, four heads with four weights each, and adapters.
  CHECK(chosen_settings(classification, {"curves"}, false).size() == 18);
  CHECK(chosen_settings(free_text, {"curves"}, false).size() == 13);
  CHECK_THROWS_AS(chosen_settings(classification, {"curves", "recipe"}, false), InputError);
  for (const LearningSetting& curve : chosen_settings(classification, {"curves"}, false)) {
    INFO(curve.name);
    const TrainOptions applied = curve.applied_to(base, classification);
    CHECK(applied.stage_count() == (curve.name == "backpropagation" ? 1 : 3));
  }
  const TrainOptions quarter =
      setting(classification, "restricted-alpha-0.25").applied_to(base, classification);
  CHECK(quarter.settings.loss.alpha == 0.25);
  CHECK(heads_text(quarter.inner_head, quarter.last_head) == "restricted");
  CHECK(quarter.settings.optimizer.learning_rate == 1e-3);
}

TEST_CASE("means and standard errors are over the seeds of a setting") {
  const std::vector<LearningResult> results{result("recipe", 0, 0.8), result("recipe", 1, 0.9),
                                            result("recipe", 2, 0.7), result("paper", 0, 0.5)};
  CHECK(results[0].final_train_loss() == 1);
  const BenchResult table = learning_table(results);
  CHECK(table.rows.size() == 4);
  CHECK(table.rows[1]["accuracy"] == 0.9);
  CHECK(table.ratios["classification, recipe: accuracy"].get<double>() == Approx(0.8));
  // Sample variance 0.01 over 3 seeds.
  CHECK(table.ratios["classification, recipe: accuracy, s.e."].get<double>() == Approx(std::sqrt(0.01 / 3)));
  CHECK_FALSE(table.ratios.contains("classification, paper: accuracy, s.e."));
  const BenchResult means = learning_means(results);
  REQUIRE(means.rows.size() == 2);
  CHECK(means.rows[0]["seeds"] == 3);
  CHECK(means.rows[1]["+- accuracy"].is_null());
  CHECK(means.to_table().find(" - ") != std::string::npos);
  const std::string plot = learning_plot("classification", results);
  CHECK(count_of("<polyline", plot) == 8);  // accuracy, two kinds of NLL, train loss
  CHECK(count_of("<polygon", plot) == 4);   // the recipe's range of seeds; the paper has one seed
}

TEST_CASE("curves have each update's mean and range over seeds") {
  const std::vector<LearningResult> results{result("recipe", 0, 0.8), result("recipe", 1, 0.9),
                                            result("paper", 0, 0.5)};
  const json all = json::parse(learning_json(learning_table(results), results));
  CHECK(all["rows"].size() == 3);
  REQUIRE(all["curves"].size() == 8);
  const json& accuracy = all["curves"][0];
  CHECK(accuracy["setting"] == "recipe");
  CHECK(accuracy["measure"] == "accuracy");
  CHECK(accuracy["seeds"] == 2);
  REQUIRE(accuracy["points"].size() == 2);
  const json& last = accuracy["points"][1];
  CHECK(last["update"] == 4);
  CHECK(last["mean"].get<double>() == Approx(0.85));
  CHECK(last["least"] == 0.8);
  CHECK(last["most"] == 0.9);
  CHECK(last["standard_error"].get<double>() == Approx(0.05));
  CHECK(all["curves"][3]["measure"] == "train_loss");
  CHECK(all["curves"][3]["points"].size() == 4);
  CHECK(all["curves"][4]["points"][1]["standard_error"].is_null());
}

TEST_CASE("a curve over seeds counts seeds between their own windows") {
  std::vector<LearningResult> results{result("recipe", 0, 0.85), result("recipe", 1, 0.85)};
  results[0].held_out.insert(results[0].held_out.begin() + 1, {2, 0.65, 1.0, 2.0});
  // Seed 1 has (0.25 + 0.85) / 2 = 0.55 at window 2, so the mean is 0.6, a third up the axis from 0.2 to 1.
  const std::string svg = learning_plot("classification", results);
  const Approx expected =
      Approx(302 - 240 * (0.6 - 0.2) / (axis_ticks(0.25, 0.85, 5).back() - 0.2)).margin(0.01);
  const std::size_t begin = svg.find("<polyline points=\"") + 18;
  const std::string points = svg.substr(begin, svg.find('"', begin) - begin);
  const std::string second = points.substr(points.find(' ') + 1);
  CHECK(std::stod(second.substr(second.find(',') + 1)) == expected);
}

TEST_CASE("bench learning makes the runs that train makes, and keeps them") {
  const TinyWorkplace place;
  const auto arguments =
      bench(place, classes + std::vector<std::string>{"--settings", "backpropagation,recipe", "--seeds",
                                                      "1,2", "--windows", "4"});
  const CommandOutput output = run_zerolock(arguments);
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json table = json::parse(output.out);
  CHECK(table["bench"] == "learning");
  CHECK(table["simulated"] == false);
  REQUIRE(table["rows"].size() == 5);
  CHECK(table["rows"][0]["setting"] == "untrained");
  CHECK(table["rows"][1]["stages"] == 1);
  CHECK(table["rows"][3]["heads"] == "inner=calibrated,last=static");
  CHECK(table["rows"][4]["seed"] == 2);
  CHECK(table["rows"][3]["nll"] != table["rows"][4]["nll"]);
  CHECK(table["ratios"].contains("classification, recipe: nll_label, s.e."));
  CHECK(count_of("calibrating: stage", output.err) == 6);  // three stages, two seeds
  CHECK(table["curves"].size() == 8);
  CHECK(json::parse(read_text(place.path("bench/learning.json"))) == table);
  CHECK(count_of("<polyline", read_text(place.path("bench/learning-classification.svg"))) == 8);

  const CommandOutput trained =
      run_zerolock(place.train("run", {"--recipe", "auto", "--seed", "2", "--windows", "4", "--json"}));
  REQUIRE(trained.status == 0);
  const json kept = json::parse(read_text(place.path("bench/classification-recipe-seed-2/summary.json")));
  CHECK(json::parse(trained.out)["adapter_sha256"] == kept["adapter_sha256"]);
  const CommandOutput evaluated =
      run_zerolock({"evaluate", "--model", place.model(), "--adapter", place.text_path("run/adapter"),
                    "--data", place.rows(), "--labels", "up,no,hi,go", "--seq", "64", "--json"});
  CHECK(json::parse(evaluated.out)["nll_label"].get<double>() ==
        Approx(table["rows"][4]["nll_label"].get<double>()).epsilon(1e-5));

  const CommandOutput again = run_zerolock(arguments);
  CHECK(again.status == 0);
  CHECK(again.out == output.out);
  CHECK(count_of("has it already", again.err) == 4);
  const std::vector<std::string> recipe_again =
      classes + std::vector<std::string>{"--settings", "recipe", "--seeds", "1", "--log-level", "warn"};
  check_refused(bench(place, recipe_again + std::vector<std::string>{"--windows", "4", "--rank", "2"}),
                "the run was made with --rank 4");
  check_refused(bench(place, recipe_again + std::vector<std::string>{"--windows", "5"}),
                "holds a run with other stages or windows");
}

TEST_CASE("bench learning asks for the titles of rows with class, title and description") {
  const TinyWorkplace place;
  std::string rows;
  for (int row = 0; row < 12; ++row) rows += "1,row " + std::to_string(row) + ",all of it\n";
  write_text(place.path("rows.csv"), rows);
  const CommandOutput output = run_zerolock(bench(
      place, {"--task", "free-text", "--settings", "last-only", "--windows", "2", "--log-level", "warn"}));
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json table = json::parse(output.out);
  CHECK(table["rows"][1]["task"] == "free text");
  CHECK(table["rows"][1]["accuracy"].is_null());
  CHECK(std::filesystem::exists(place.path("bench/learning-free-text.svg")));

  // The template in configs is the same one.
  const std::string headline = std::string(ZEROLOCK_TEST_FIXTURES) + "/../../configs/templates/headline.txt";
  const CommandOutput evaluated = run_zerolock(
      {"evaluate", "--model", place.model(), "--adapter",
       place.text_path("bench/free-text-last-only-seed-0/adapter"), "--data", place.rows(), "--columns",
       "number,answer,description", "--template", headline, "--seq", "64", "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.status == 0);
  CHECK(json::parse(evaluated.out)["nll"].get<double>() ==
        Approx(table["rows"][1]["nll"].get<double>()).epsilon(1e-5));
}

TEST_CASE("bench learning refuses what would make settings incomparable") {
  const TinyWorkplace place;
  check_refused(bench(place, {"--lr", "0.1"}), "--lr: is what settings differ in");
  check_refused(bench(place, {"--recipe", "none"}), "--recipe: is what settings differ in");
  check_refused(bench(place, {"--placement", "processes"}), "--placement: learning does not depend on it");
  check_refused(bench(place, {"--seed", "1"}), "--seed: give --seeds");
  check_refused(bench(place, {"--seeds", "1,2,1"}), "--seeds: names a seed twice");
  check_refused(bench(place, {"--settings", "nothing"}), "--settings: 'nothing' is no setting");
  check_refused(bench(place, {"--task", "free-text", "--columns", "class,title,description"}),
                "make classification, not free text");
  check_refused({"bench", "learning", "--model", place.model(), "--data", place.rows(), "--out",
                 place.text_path("bench")},
                "--eval-data: is required");
  CHECK_FALSE(std::filesystem::exists(place.path("bench")));
}

TEST_CASE("study-data parts and shuffles the rows as the study did") {
  const TinyWorkplace place;
  std::string rows;
  for (int row = 0; row < 1500; ++row) {
    rows += "\"" + std::to_string(row % 4 + 1) + "\",\"title " + std::to_string(row) +
            ", with \"\"quotes\"\" and a \\\",\"text\"\n";
  }
  write_text(place.path("all.csv"), rows);
  const std::string errors = place.text_path("errors");
  REQUIRE(run_study_data(place.text_path("all.csv"), place.text_path("study"), errors) == 0);
  const auto source = csv_fields(place.path("all.csv"));
  const auto held_out = csv_fields(place.path("study/held-out.csv"));
  const auto train = csv_fields(place.path("study/train.csv"));
  REQUIRE(source.size() == 1500);
  REQUIRE(held_out.size() == 400);
  REQUIRE(train.size() == 1024);
  CHECK(std::equal(held_out.begin(), held_out.end(), source.begin()));
  CHECK(train[0] != source[400]);

  write_text(place.path("few.csv"), "\"1\",\"a\",\"b\"\n");
  CHECK(run_study_data(place.text_path("few.csv"), place.text_path("none"), errors) != 0);
  CHECK(read_text(place.path("errors")).find("has 1 rows, needed are 1424") != std::string::npos);
  write_text(place.path("other.csv"), "id,text\n");
  CHECK(run_study_data(place.text_path("other.csv"), place.text_path("none"), errors) != 0);
  CHECK(read_text(place.path("errors")).find("row 1: expected class 1 to 4") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("none")));

  const std::filesystem::path shared = ZEROLOCK_SHARED;
  if (!std::filesystem::exists(shared / "data/agnews/test.csv")) {
    WARN("the study's own rows are skipped: the shared data folder is missing");
    return;
  }
  REQUIRE(run_study_data(shared / "data/agnews/test.csv", place.text_path("agnews"), errors) == 0);
  const auto recorded = SafetensorsFile::open(shared / "fixtures/smollm2/agnews_ids.safetensors");
  const StoredTensor& order = recorded->tensor("train.csv_row");
  const auto all = csv_fields(shared / "data/agnews/test.csv");
  const auto study = csv_fields(place.path("agnews/train.csv"));
  REQUIRE(order.elements() == 1024);
  REQUIRE(study.size() == 1024);
  for (std::size_t row = 0; row < study.size(); ++row) {
    const auto index = reinterpret_cast<const std::int32_t*>(order.data())[row];
    CHECK(study[row] == all[static_cast<std::size_t>(index)]);
  }
}
