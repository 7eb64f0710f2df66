// The schedules that zerolock is compared with, through the real binary: the same numbers as plain
// backpropagation, what a run of theirs leaves, and what they cannot do.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tensors/files/safetensors.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const char* const weights_file = "adapter/adapter_model.safetensors";
const std::vector<std::string> job{"--windows", "4", "--lr", "0.01", "--json"};

/// Trains into the folder of that name; the summary.
json train(const TinyWorkplace& place, const std::string& out, const std::vector<std::string>& more) {
  const CommandOutput output = run_zerolock(place.train(out, job + more));
  INFO(output.err);
  REQUIRE(output.status == 0);
  return json::parse(output.out);
}

std::string weights(const TinyWorkplace& place, const std::string& run) {
  return read_text(place.path(run) / weights_file);
}

/// Of all numbers of two adapters.
double largest_difference(const TinyWorkplace& place, const std::string& one, const std::string& other) {
  const auto left = zerolock::SafetensorsFile::open(place.path(one) / weights_file);
  const auto right = zerolock::SafetensorsFile::open(place.path(other) / weights_file);
  REQUIRE(left->tensors().size() == right->tensors().size());
  double largest = 0;
  for (const auto& [name, tensor] : left->tensors()) {
    const at::Tensor difference =
        tensor.expand(at::kDouble).sub(right->tensors().at(name).expand(at::kDouble));
    largest = std::max(largest, difference.abs().max().item<double>());
  }
  return largest;
}

}  // namespace

TEST_CASE("flushed schedules give plain backpropagation's adapter, and PipeDream's is another") {
  const TinyWorkplace place;
  train(place, "one-stage", {"--stages", "1"});
  train(place, "bp", {"--schedule", "bp"});
  train(place, "gpipe", {"--schedule", "gpipe"});
  train(place, "1f1b", {"--schedule", "1f1b"});
  train(place, "pipedream", {"--schedule", "pipedream"});
  CHECK(weights(place, "bp") == weights(place, "one-stage"));
  CHECK(weights(place, "1f1b") == weights(place, "bp"));       // gradients are added in the same order
  CHECK(largest_difference(place, "gpipe", "bp") < 1e-5);      // and here in the opposite one
  CHECK(largest_difference(place, "pipedream", "bp") > 1e-4);  // its forwards have older weights
}

TEST_CASE("only the last stage has a loss") {
  const TinyWorkplace place;
  for (const char* schedule : {"gpipe", "1f1b", "pipedream"}) {
    INFO(schedule);
    const json summary = train(place, schedule, {"--schedule", schedule});
    const json& stages = summary["stages"];
    for (std::size_t stage = 0; stage < 2; ++stage) {
      CHECK(stages[stage]["final_task_loss"].is_null());
      CHECK(stages[stage]["peak_bytes"]["loss"] == 0);
    }
    CHECK(stages[2]["final_task_loss"].get<double>() > 0);
    CHECK(stages[2]["peak_bytes"]["loss"].get<double>() > 0);
    std::istringstream lines(read_text(place.path(schedule) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json metrics = json::parse(line);
      CHECK(metrics["task_loss"].is_null() == (metrics["stage"] < 2));
      CHECK(metrics["grad_norm"].get<double>() > 0);
    }
  }
}

TEST_CASE("the automatic recipe of a schedule with one loss is that of one stage") {
  const TinyWorkplace place;
  const json summary = train(place, "run", {"--schedule", "1f1b", "--recipe", "auto"});
  CHECK(summary["recipe"]["chosen"]["head"] == "static");
  CHECK(summary["recipe"]["seen"].get<std::string>().find("one loss for all stages") != std::string::npos);
}

TEST_CASE("flushed runs go on to the same bits, and a PipeDream run says that it cannot") {
  const TinyWorkplace place;
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    INFO(schedule);
    train(place, schedule, {"--schedule", schedule});
    REQUIRE(run_zerolock(
                place.train("half-" + schedule, {"--windows", "2", "--lr", "0.01", "--schedule", schedule}))
                .status == 0);
    const CommandOutput resumed =
        run_zerolock({"train", "--resume", place.text_path("half-" + schedule), "--windows", "4"});
    INFO(resumed.err);
    REQUIRE(resumed.status == 0);
    CHECK(weights(place, "half-" + schedule) == weights(place, schedule));
    check_refused_at_last(
        {"train", "--resume", place.text_path(schedule), "--windows", "6", "--schedule", "zerolock"},
        "the run was made with --schedule");
  }
  train(place, "pipedream", {"--schedule", "pipedream"});
  check_refused_at_last({"train", "--resume", place.text_path("pipedream"), "--windows", "6"},
                        "a pipedream run cannot go on");
}

TEST_CASE("a stage that fails pauses the run with a line that names the schedule") {
  const TinyWorkplace place;
  write_text(place.path("faults.toml"),
             "[[fault]]\nkind = \"throw\"\nstage = 1\nwindow = 3\nmicro_batch = 1\nat = \"backward\"\n");
  const std::vector<std::string> faults{"--faults", place.text_path("faults.toml")};
  const CommandOutput flushed =
      run_zerolock(place.train("1f1b", job + faults + std::vector<std::string>{"--schedule", "1f1b"}));
  INFO(flushed.err);
  CHECK(flushed.status == 1);
  CHECK(flushed.err.find("the schedule 1f1b cannot restore one stage alone") != std::string::npos);
  CHECK(flushed.err.find("go on with: zerolock train --resume") != std::string::npos);
  REQUIRE(run_zerolock({"train", "--resume", place.text_path("1f1b")}).status == 0);
  train(place, "undisturbed", {"--schedule", "1f1b"});
  CHECK(weights(place, "1f1b") == weights(place, "undisturbed"));
  const CommandOutput stale = run_zerolock(
      place.train("pipedream", job + faults + std::vector<std::string>{"--schedule", "pipedream"}));
  INFO(stale.err);
  CHECK(stale.status == 1);
  CHECK(stale.err.find("the schedule pipedream cannot restore one stage alone") != std::string::npos);
  CHECK(stale.err.find("a pipedream run cannot go on") != std::string::npos);
}

TEST_CASE("what a schedule cannot have is refused in one line") {
  const TinyWorkplace place;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    check_refused_at_last(place.train("refused", more), text);
    CHECK_FALSE(std::filesystem::exists(place.path("refused")));
  };
  refused({"--schedule", "bp", "--stages", "3"}, "--schedule: bp has one stage, not 3");
  for (const std::string schedule : {"gpipe", "1f1b", "pipedream"}) {
    refused({"--schedule", schedule, "--placement", "processes"},
            "processes of their own cannot have " + schedule);
  }
  refused({"--schedule", "gpipe", "--alpha", "0.5"}, "alpha");
  refused({"--schedule", "gpipe", "--clip", "1"}, "clipping");
  refused({"--schedule", "gpipe", "--head", "calibrated"}, "head");
  refused({"--schedule", "gpipe", "--train-stages", "last"}, "trained stages");
  refused({"--schedule", "gpipe", "--recipe", "paper"}, "alpha");
  check_refused_at_last({"plan", "--model", place.model(), "--schedule", "gpipe"},
                        "a plan cannot have gpipe");
}

TEST_CASE("bench memory compares the schedules at every geometry, and says where a limit is exceeded") {
  const TinyWorkplace place;
  const std::string out = place.text_path("memory");
  const CommandOutput output =
      run_zerolock({"bench", "memory", "--model", place.model(), "--seq", "16", "--examples", "8",
                    "--batches", "1,2,3,8", "--memory-limit", "0.5", "--json", "--out", out});
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json result = json::parse(output.out);
  CHECK(result["rows"].size() == 3 * 4 * 3);  // b 1, 2 and 8; schedules; stages
  std::map<std::string, double> largest;      // by schedule, at b = 1
  for (const json& row : result["rows"]) {
    double sum = 0;
    for (const char* component : {"weights", "activations", "loss", "buffers", "optimizer"}) {
      sum += row[std::string(component) + "_MiB"].get<double>();
    }
    CHECK(row["total_MiB"].get<double>() <= sum + 1e-9);
    if (row["batch"] != 1) continue;
    double& most = largest[row["schedule"]];
    most = std::max(most, row["total_MiB"].get<double>());
  }
  CHECK(largest["zerolock"] < largest["1f1b"]);
  CHECK(largest["1f1b"] < largest["gpipe"]);
  CHECK(result["ratios"]["zerolock / gpipe, largest stage, B 8 b 1"].get<double>() ==
        Approx(largest["zerolock"] / largest["gpipe"]));
  CHECK(result["ratios"].contains("b from which pipedream exceeds the limit, B 8"));
  CHECK(json::parse(read_text(place.path("memory") / "memory.json")) == result);
  CHECK(read_text(place.path("memory") / "memory.svg").find("<svg") != std::string::npos);
  const CommandOutput two =
      run_zerolock({"bench", "memory", "--model", place.model(), "--seq", "16", "--examples", "8",
                    "--batches", "8", "--schedules", "1f1b,zerolock", "--json"});
  REQUIRE(two.status == 0);
  CHECK(json::parse(two.out)["rows"].size() == 2 * 3);
  CHECK(json::parse(two.out)["ratios"].size() == 1);
  check_refused_at_last({"bench", "memory", "--model", place.model(), "--examples", "8", "--batches", "3"},
                        "none divides 8 examples");
  check_refused_at_last({"bench", "memory", "--model", place.model(), "--head", "restricted"},
                        "bench memory has none");
  check_refused_at_last({"bench", "memory", "--model", place.model(), "--schedule", "gpipe"},
                        "chooses itself");
}

TEST_CASE("bench throughput measures a schedule that sends gradients back") {
  const TinyWorkplace place;
  const CommandOutput output =
      run_zerolock({"bench", "throughput", "--model", place.model(), "--data", place.rows(), "--labels",
                    "up,no,hi,go", "--seq", "32", "--windows", "4", "--schedule", "1f1b", "--json"});
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json result = json::parse(output.out);
  CHECK(result["ratios"]["examples/s, steady"].get<double>() > 0);
  for (const json& row : result["rows"]) CHECK(row["busy_seconds"].get<double>() > 0);
}
