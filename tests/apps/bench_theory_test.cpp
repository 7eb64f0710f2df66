// The theory's quantities through the command: rows, ratios, files, refusals.

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/bench/bench_theory_results.hpp"
#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock;
using namespace zerolock::testing;
using nlohmann::json;

namespace {

std::vector<std::string> bench(const TinyWorkplace& place, const std::vector<std::string>& more) {
  const std::vector<std::string> arguments{
      "bench",     "theory",      "--model", place.model(), "--data",  place.rows(),
      "--labels",  "up,no,hi,go", "--seq",   "64",          "--batch", "2",
      "--windows", "2",           "--probe", "4",           "--out",   place.text_path("theory"),
      "--json"};
  return arguments + more;
}

TheoryWindow window(std::uint64_t number, double rate, double drift, double gradient) {
  TheoryWindow made{number, rate, {}};
  made.point.stages = {{1.0, gradient, 0.5, 0.1, -0.2, 0.0}, {3.0, gradient, 1.5, 0.3, -0.4, 2 * drift}};
  return made;
}

}  // namespace

TEST_CASE("ratios of drift are by the rate and by the gradient that the step followed") {
  const std::vector<TheoryRun> runs{
      {"weighted", {window(0, 0, 0, 2), window(1, 0.1, 0.02, 4), window(2, 0.05, -0.001, 1)}}};
  const BenchResult table = theory_table(runs);
  REQUIRE(table.rows.size() == 9);
  const auto& start = table.rows[2];
  CHECK(start["stage"] == "all");
  CHECK(start["R"] == 2.0);
  CHECK(start["drift"].is_null());
  CHECK(start["drift / rate^2"].is_null());
  const auto& first = table.rows[5];
  CHECK(first["drift"].get<double>() == Approx(0.02));
  CHECK(first["drift / rate^2"].get<double>() == Approx(2.0));
  // Before the first step the gradient of R has the norm sqrt(2^2 + 2^2) / 2.
  CHECK(first["drift / (rate x gradient^2)"].get<double>() == Approx(0.02 / (0.1 * 2)));
  CHECK(table.rows[8]["drift / rate^2"].get<double>() == Approx(-0.4));
  CHECK(table.ratios["weighted: largest drift / rate^2"].get<double>() == Approx(2.0));
  CHECK(table.ratios["weighted: largest drift / (rate x gradient^2)"].get<double>() == Approx(0.1));
  CHECK(table.ratios["weighted: largest |drift| / rate^2"].get<double>() == Approx(2.0));
  CHECK(table.ratios["weighted: largest delta of a stage"] == 1.5);
  CHECK(theory_summary(table).rows.size() == 3);
  CHECK_FALSE(theory_summary(table).rows[0].contains("stage"));
  CHECK(theory_plot(runs).find("Distance to the target, weighted") != std::string::npos);
}

TEST_CASE("bench theory measures both objectives from the same start, window by window") {
  const TinyWorkplace place;
  const CommandOutput output = run_zerolock(bench(place, {"--lr", "0.01", "--head", "static"}));
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json table = json::parse(output.out);
  CHECK(table["bench"] == "theory");
  CHECK(table["simulated"] == false);
  REQUIRE(table["rows"].size() == 2 * 3 * 4);  // objectives, the start and two windows, three stages and all
  for (const std::size_t first : {std::size_t{0}, std::size_t{12}}) {
    double loss = 0;
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const json& row = table["rows"][first + 4 + stage];
      CHECK(row["stage"] == stage);
      CHECK(row["window"] == 1);
      loss += row["R"].get<double>() / 3;
      const double change = row["R"].get<double>() - table["rows"][first + stage]["R"].get<double>();
      CHECK(row["descent"].get<double>() + row["drift"].get<double>() == Approx(change).margin(1e-6));
    }
    CHECK(table["rows"][first + 7]["R"].get<double>() == Approx(loss));
    CHECK(table["rows"][first + 7]["rate"].get<double>() == Approx(0.01));
    CHECK(table["rows"][first + 11]["rate"].get<double>() == Approx(0.01 / std::sqrt(2.0)));
  }
  // The same weights have the same readouts, whatever they are trained for; only its own loss is
  // reverse-kl's.
  CHECK(table["rows"][12]["delta"] == table["rows"][0]["delta"]);
  CHECK(table["rows"][13]["R"].get<double>() ==
        Approx(table["rows"][13]["delta"].get<double>()).epsilon(1e-4));
  CHECK(table["rows"][1]["R"] != table["rows"][13]["R"]);
  CHECK(table["ratios"].contains("reverse-kl: largest drift / rate^2"));
  CHECK(json::parse(read_text(place.path("theory/theory.json"))) == table);
  CHECK(read_text(place.path("theory/theory.svg")).find("</svg>") != std::string::npos);
}

TEST_CASE("bench theory refuses what it has no quantities for") {
  const TinyWorkplace place;
  for (const auto& [more, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--head", "adapter", "--alpha", "1"}, "--head: a readout that is trained along"},
           {{"--train-stages", "last"}, "--train-stages: the theory is about"},
           {{"--schedule", "gpipe"}, "--schedule: bench theory cannot have gpipe"},
           {{"--resume", "x"}, "--resume: bench theory begins anew"}}) {
    const CommandOutput output = run_zerolock(bench(place, more));
    INFO(output.err);
    CHECK(output.status == 2);
    CHECK(output.err.find(text) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(place.path("theory")));
}
