// zerolock bench device on a tiny model.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("bench device gives times and memory of each process, and a page", "[device]") {
  const TinyWorkplace place;
  const CommandOutput output =
      run_zerolock({"bench", "device", "--model", place.model(), "--stages", "2", "--seq", "16", "--windows",
                    "10", "--checkpoint-every", "4", "--json", "--out", place.text_path("device")});
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json result = json::parse(output.out);
  REQUIRE(result["rows"].size() == 2);
  for (const auto& row : result["rows"]) {
    CHECK(row["checkpoints"] == 4);  // before the first window, and after windows 4, 8 and 10
    CHECK(row["step_ms_median"].get<double>() > 0);
    CHECK(row["step_ms_p95"] >= row["step_ms_median"]);
    CHECK(row["total_ms_median"] >= row["queue_ms_median"]);
    CHECK(row["pss_MiB"].get<double>() > 1);
    CHECK(row["weights_MiB"].get<double>() > 0);
  }
  CHECK(result["ratios"]["records"] == 10);
  CHECK(result["ratios"]["records/s"].get<double>() > 0);
  CHECK(result["simulated"] == false);
  REQUIRE(run_zerolock({"report", place.text_path("device")}).status == 0);
  CHECK_THAT(read_text(place.path("device") / "report.html"),
             Contains("<svg ") && Contains("step_ms_median"));

  const CommandOutput refused = run_zerolock({"bench", "device", "--model", place.model(), "--batch", "2"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("--batch: is what bench device chooses itself"));
}
