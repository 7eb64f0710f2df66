// Comparisons of schedules through the real binary: what they report. How fast a schedule is depends on the
// machine and is not judged here.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const std::vector<std::string> quick{"--json", "--rounds", "1", "--windows",          "4", "--seq",
                                     "8",      "--batch",  "2", "--calibration-runs", "1"};

json compared(const TinyWorkplace& place, const std::string& bench, const std::vector<std::string>& more) {
  const CommandOutput output =
      run_zerolock(std::vector<std::string>{"bench", bench, "--model", place.model()} + quick + more);
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json result = json::parse(output.out);
  CHECK(result["bench"] == bench);
  for (const json& row : result["rows"]) {
    CHECK(row.size() == result["rows"][0].size());
    CHECK(row["examples_per_second"].get<double>() > 0);
    CHECK(row["utilisation"].get<double>() > 0);
    CHECK(row["utilisation"].get<double>() < 1.0001);
    CHECK(row["of_given_times"].is_null() != row["simulated"].get<bool>());
  }
  for (const auto& [name, value] : result["ratios"].items()) {
    INFO(name);
    CHECK(value.get<double>() > 0);
  }
  return result;
}

}  // namespace

TEST_CASE("bench throughput compares schedules over real stages and over simulated ones") {
  const TinyWorkplace place;
  const std::string out = place.text_path("throughput");
  const json real = compared(
      place, "throughput",
      {"--schedules", "zerolock,gpipe,1f1b,pipedream", "--stages", "2", "--compute", "real", "--out", out});
  CHECK(real["simulated"] == false);
  CHECK(real["rows"].size() == 4);
  CHECK(real["ratios"].size() == 3);
  CHECK(real["ratios"].contains("zerolock / 1f1b, 2 stages, same split"));
  CHECK(json::parse(read_text(place.path("throughput") / "throughput.json")) == real);
  CHECK(read_text(place.path("throughput") / "timeline.svg").find("pipedream") != std::string::npos);
  const json simulated =
      compared(place, "throughput",
               {"--schedules", "zerolock,pipedream", "--compute", "simulated", "--split", "both"});
  CHECK(simulated["simulated"] == true);
  CHECK(simulated["rows"].size() == 4);
  CHECK(simulated["ratios"].contains("zerolock / pipedream, 3 stages, same split"));
  CHECK(simulated["ratios"].contains("zerolock / pipedream, 3 stages, tuned split"));
  CHECK(simulated["ratios"].contains("zerolock / pipedream, 3 stages, same against tuned split"));
}

TEST_CASE("bench stages goes over numbers of stages, beyond the model's layers too") {
  const TinyWorkplace place;
  const std::string out = place.text_path("stages");
  const json result =
      compared(place, "stages", {"--stage-counts", "2,9", "--schedules", "zerolock,1f1b", "--out", out});
  CHECK(result["simulated"] == true);
  CHECK(result["rows"].size() == 4);
  CHECK(result["rows"][2]["layers"] == "9 x 1");
  CHECK(read_text(place.path("stages") / "stages.svg").find("<svg") != std::string::npos);
  CHECK(read_text(place.path("stages") / "timeline.svg").find("stage 8") != std::string::npos);
}

TEST_CASE("bench links compares schedules over every link and medium") {
  const TinyWorkplace place;
  const json result =
      compared(place, "links",
               {"--schedules", "zerolock,pipedream", "--stages", "2", "--out", place.text_path("links")});
  std::set<std::string> networks;
  for (const json& row : result["rows"]) {
    networks.insert(row["link"].get<std::string>() + " " + row["medium"].get<std::string>());
  }
  CHECK(networks.size() == 1 + 3 * 3);  // local once
  CHECK(result["rows"].size() == 2 * networks.size());
  // 2 rows of 8 tokens, 64 numbers of 4 bytes each.
  CHECK(result["rows"].back()["entry_seconds"].get<double>() == Approx(0.03 + 2 * 8 * 64 * 4 / 6.25e6));
  CHECK(read_text(place.path("links") / "links.svg").find("half-duplex") != std::string::npos);
  CHECK(result["ratios"].contains("zerolock / pipedream, 2 stages, constrained half-duplex, same split"));
}

TEST_CASE("bench overhead goes over numbers of stages and sizes of entries") {
  const TinyWorkplace place;
  const CommandOutput output =
      run_zerolock({"bench", "overhead", "--json", "--stage-counts", "2,4,8", "--entry-bytes", "1,100000",
                    "--windows", "40", "--rounds", "1", "--out", place.text_path("overhead")});
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json result = json::parse(output.out);
  CHECK(result["simulated"] == true);
  CHECK(result["rows"].size() == 3 + 1 + 2);
  CHECK(result["rows"][3]["entry_bytes"] == 100000);
  CHECK(result["rows"][5]["way"] == "connection");
  for (const json& row : result["rows"]) CHECK(row["us_per_micro_batch_and_stage"].is_number());
  CHECK(json::parse(read_text(place.path("overhead") / "overhead.json")) == result);
  CHECK(read_text(place.path("overhead") / "overhead.svg").find("one connection") != std::string::npos);
}

TEST_CASE("what a comparison has no use for is refused in one line") {
  const TinyWorkplace place;
  const std::vector<std::string> throughput{"bench", "throughput", "--model", place.model(), "--schedules"};
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    check_refused_at_last(throughput + more, text);
  };
  refused({"zerolock,bp"}, "'bp' is not among those compared");
  refused({"zerolock,zerolock"}, "'zerolock' is named twice");
  refused({"gpipe", "--schedule", "gpipe"}, "--schedule: does not go with --schedules");
  refused({"gpipe", "--windows", "2"}, "at least 3 windows");
  refused({"gpipe", "--train-stages", "last"}, "a comparison trains all stages");
  refused({"gpipe", "--head", "calibrated"}, "a comparison has none");
  refused({"gpipe", "--head", "inner=static,last=restricted"}, "a restricted readout is over the labels");
  refused({"gpipe", "--link", "wet string"}, "--link");
  refused({"gpipe", "--medium", "ether"}, "'ether' is no medium");
  check_refused_at_last(
      {"bench", "throughput", "--model", place.model(), "--data", place.rows(), "--rounds", "2"},
      "--rounds: goes with --schedules");
  check_refused_at_last({"bench", "links", "--batch", "4"}, "--batch: goes with --schedules");
  check_refused_at_last({"bench", "stages", "--model", place.model(), "--stages", "3"},
                        "--stages: is not for");
}
