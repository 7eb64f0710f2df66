// What `zerolock bench recovery` reports, with a stage's compute of a few milliseconds. How long it takes
// depends on the machine and is not judged here; what crosses the boundaries does not.

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

constexpr std::uint64_t payload_bytes = 6 * 16 * 4;  // of one micro-batch
constexpr std::uint64_t state_bytes = 4096;
constexpr std::uint64_t missed = 4 * 8;  // micro-batches

const json& row_of(const json& result, const std::string& name) {
  for (const json& row : result["rows"]) {
    if (row["case"] == name) return row;
  }
  FAIL("no row " + name);
  return result;
}

}  // namespace

TEST_CASE("a stage that was away moves what it missed once, and alone") {
  const TinyWorkplace place;
  const CommandOutput output = run_zerolock(
      {"bench", "recovery", "--json", "--rounds", "1", "--forward-ms", "1", "--backward-ms", "1", "--step-ms",
       "0", "--rows", "6", "--width", "16", "--state-kib", "4", "--out", place.text_path("recovery")});
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json result = json::parse(output.out);
  CHECK(result["bench"] == "recovery");
  CHECK(result["simulated"] == true);
  for (const json& row : result["rows"]) CHECK(row.size() == result["rows"][0].size());

  // Into the stage and out of it; those that were on their way to the killed process come again.
  const json& killed = row_of(result, "process killed");
  CHECK(killed["entries"] == 2 * missed);
  CHECK(killed["payload_bytes"] == 2 * missed * payload_bytes);
  CHECK(killed["entries_again"].get<std::uint64_t>() >= 1);
  CHECK(killed["entries_again"].get<std::uint64_t>() <= missed);
  CHECK(killed["wire_bytes"].get<std::uint64_t>() > 2 * missed * payload_bytes);
  CHECK(killed["wire_bytes"].get<std::uint64_t>() < 2 * missed * (payload_bytes + 512));
  // Its buffer had them all.
  const json& worker = row_of(result, "worker died");
  CHECK(worker["entries"] == missed);
  CHECK(worker["payload_bytes"] == missed * payload_bytes);
  CHECK(worker["entries_again"] == 0);
  // Both copy a state a window for two stages; the new process is given those that a restart may need, too.
  const auto bytes_of_states = [](const json& row) { return row["state_bytes"].get<std::uint64_t>(); };
  CHECK(bytes_of_states(worker) > 2 * 4 * state_bytes);
  CHECK(bytes_of_states(worker) < 2 * 4 * (state_bytes + 2048));
  CHECK(bytes_of_states(killed) > bytes_of_states(worker) + state_bytes);
  // Two boundaries, both ways; and forward alone.
  CHECK(row_of(result, "1f1b from W4")["entries"] == 4 * missed);
  CHECK(row_of(result, "1f1b from W4")["payload_bytes"] == 4 * missed * payload_bytes);
  CHECK(row_of(result, "all restarted at W4")["entries"] == 2 * missed);
  CHECK(result["ratios"]["payload bytes, process killed / 1f1b from W4"] == 0.5);
  CHECK(result["ratios"]["payload bytes, worker died / 1f1b from W4"] == 0.25);

  // No case can be faster than its schedule: 32 micro-batches of 2 ms in the stage, and the last one's
  // forward on; 40 of them under 1F1B.
  for (const char* name : {"process killed", "worker died", "all restarted at W4"}) {
    CHECK(row_of(result, name)["seconds"].get<double>() > 0.065);
  }
  CHECK(row_of(result, "1f1b from W4")["seconds"].get<double>() > 0.080);
  CHECK(json::parse(read_text(place.path("recovery") / "recovery.json")) == result);
  const std::string plot = read_text(place.path("recovery") / "recovery.svg");
  CHECK(plot.find("process killed") != std::string::npos);
  CHECK(plot.find("stage 2") != std::string::npos);
}

TEST_CASE("a bench that cannot keep its results, or could not be held, does not begin") {
  const TinyWorkplace place;
  check_refused({"bench", "recovery", "--out", place.rows()}, place.rows() + ": ");
  check_refused({"bench", "recovery", "--out", place.rows() + "/sub"}, "is not a folder");
  for (const std::string bench : {"throughput", "links", "stages", "device", "memory"}) {
    std::vector<std::string> arguments{"bench", bench, "--model", place.model(), "--out", place.rows()};
    if (bench == "throughput" || bench == "links")
      arguments.insert(arguments.end(), {"--schedules", "gpipe"});
    check_refused(arguments, "--out " + place.rows() + ": ");
  }
  check_refused({"bench", "recovery", "--rows", "65536", "--width", "65536"}, "too much for a micro-batch");
}

TEST_CASE("an interrupted bench leaves nothing behind") {
  const TinyWorkplace place;
  std::filesystem::create_directory(place.path("temporary"));
  ::setenv("TMPDIR", place.text_path("temporary").c_str(), 1);
  CommandProcess bench({"bench", "recovery"});
  ::unsetenv("TMPDIR");
  REQUIRE(bench.wait_for_error_text("has joined (3 of 3)"));
  CHECK_FALSE(std::filesystem::is_empty(place.path("temporary")));
  bench.signal(SIGINT);
  const CommandOutput output = bench.finish();
  INFO(output.err);
  CHECK(output.status == 130);
  CHECK(output.out.empty());
  CHECK(output.error_lines().back() == "zerolock: interrupted");
  CHECK(std::filesystem::is_empty(place.path("temporary")));
}

TEST_CASE("a stage that makes up in batches comes to the same losses") {
  const TinyWorkplace place;
  const std::vector<std::string> job{"--windows", "4", "--accumulate", "8", "--json"};
  write_text(place.path("faults.toml"),
             "[[fault]]\nkind = \"throw\"\nstage = 1\nwindow = 2\nat = \"step\"\n");
  const CommandOutput plain = run_zerolock(place.train("plain", job));
  REQUIRE(plain.status == 0);
  const json expected = json::parse(plain.out)["stages"];
  for (const char* at_once : {"1", "2", "8"}) {
    const CommandOutput output = run_zerolock(place.train(
        std::string("batch-") + at_once, job + std::vector<std::string>{"--replay-batch", at_once, "--faults",
                                                                        place.text_path("faults.toml")}));
    INFO(at_once << ": " << output.err);
    REQUIRE(output.status == 0);
    const json stages = json::parse(output.out)["stages"];
    REQUIRE(stages.size() == expected.size());
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      CHECK(stages[stage]["final_task_loss"].get<double>() ==
            Approx(expected[stage]["final_task_loss"].get<double>()).epsilon(1e-4));
    }
    if (std::string(at_once) == "1") {
      CHECK(read_text(place.path("batch-1") / "adapter/adapter_model.safetensors") ==
            read_text(place.path("plain") / "adapter/adapter_model.safetensors"));
    }
  }
}
