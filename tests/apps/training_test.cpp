// Training through the real binary: what a run leaves, the same bits again, after a stop, and in other
// stages.

#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const char* const weights_file = "adapter/adapter_model.safetensors";

std::vector<json> json_lines(const std::filesystem::path& file) {
  std::vector<json> lines;
  std::istringstream stream(read_text(file));
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

/// metrics.jsonl without what depends on the clock.
std::string timeless_metrics(const std::filesystem::path& run) {
  std::string text;
  for (json line : json_lines(run / "metrics.jsonl")) {
    line.erase("seconds");
    text += line.dump() + "\n";
  }
  return text;
}

/// Complete events of trace.json by name, stage, window and micro-batch.
using SpanKey = std::tuple<std::string, int, int, int>;
std::map<SpanKey, std::pair<double, double>> spans(const std::filesystem::path& run) {
  std::map<SpanKey, std::pair<double, double>> found;
  const json trace = json::parse(read_text(run / "trace.json"));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const SpanKey key{event["name"], event["tid"], event["args"]["window"], event["args"]["micro_batch"]};
    found[key] = {event["ts"], event["ts"].get<double>() + event["dur"].get<double>()};
  }
  return found;
}

}  // namespace

TEST_CASE("a run leaves everything that its folder promises") {
  const TinyWorkplace place;
  // 40 rows in windows of 2 x 4: 5 windows.
  const CommandOutput output = run_zerolock(place.train("run", {"--json"}));
  INFO(output.err);
  REQUIRE(output.status == 0);
  const auto run = place.path("run");
  for (const char* name : {"config.toml", "run.json", "summary.json", "metrics.jsonl", "trace.json",
                           weights_file, "adapter/adapter_config.json", "checkpoints"}) {
    CHECK(std::filesystem::exists(run / name));
  }
  for (const auto& file : std::filesystem::recursive_directory_iterator(run)) {
    CHECK(file.path().extension() != ".tmp");
  }
  const json summary = json::parse(read_text(run / "summary.json"));
  CHECK(summary == json::parse(output.out));
  CHECK(summary["examples"] == 40);
  CHECK(summary["windows"] == 5);
  CHECK(summary["wall_seconds"].get<double>() > 0);
  CHECK(summary["examples_per_second"].get<double>() > 0);
  CHECK(summary["adapter_sha256"].get<std::string>().size() == 64);
  REQUIRE(summary["stages"].size() == 3);
  for (int stage = 0; stage < 3; ++stage) {
    const json& entry = summary["stages"][static_cast<std::size_t>(stage)];
    CHECK(entry["stage"] == stage);
    CHECK(entry["layers"] == json({2 * stage, 2 * stage + 1}));
    CHECK(entry["restarts"] == 0);
    CHECK(entry["final_task_loss"].get<double>() > 0);
    const json& peaks = entry["peak_bytes"];
    std::int64_t sum = 0;
    for (const char* component : {"weights", "activations", "loss", "buffers", "optimizer"}) {
      INFO(component);
      CHECK(peaks[component].get<std::int64_t>() > 0);
      sum += peaks[component].get<std::int64_t>();
    }
    CHECK(peaks["total"].get<std::int64_t>() <= sum);
  }
  const std::vector<json> metrics = json_lines(run / "metrics.jsonl");
  REQUIRE(metrics.size() == 15);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    CHECK(metrics[i]["window"] == i / 3 + 1);
    CHECK(metrics[i]["stage"] == i % 3);
    CHECK(metrics[i]["examples"] == 8);
    for (const char* key : {"task_loss", "consistency_loss", "loss", "lr", "grad_norm", "seconds"}) {
      CHECK(metrics[i].contains(key));
    }
  }
  CHECK(run_zerolock({"train", "--config", (run / "config.toml").string(), "--print-config"}).out ==
        read_text(run / "config.toml"));
}

TEST_CASE("every micro-batch is forwarded, learned and stepped once, and sent on before its backward") {
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("run", {"--targets", "q_proj,v_proj,up_proj,down_proj"})).status == 0);
  const auto found = spans(place.path("run"));
  for (int window = 1; window <= 5; ++window) {
    for (int stage = 0; stage < 3; ++stage) {
      CHECK(found.count({"step", stage, window, 3}) + found.count({"step", stage, window, 0}) +
                found.count({"step", stage, window, 4}) >=
            1);
      for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
        INFO("stage " << stage << ", window " << window << ", micro-batch " << micro_batch);
        REQUIRE(found.count({"forward", stage, window, micro_batch}) == 1);
        REQUIRE(found.count({"backward", stage, window, micro_batch}) == 1);
        const auto forward = found.at({"forward", stage, window, micro_batch});
        const auto backward = found.at({"backward", stage, window, micro_batch});
        CHECK(forward.second <= backward.first);
        if (stage < 2) CHECK(forward.second <= found.at({"forward", stage + 1, window, micro_batch}).first);
      }
    }
  }
}

TEST_CASE("two runs give the same adapter bytes, in any number of stages") {
  const TinyWorkplace place;
  std::map<std::string, std::string> bytes;
  for (const std::string stages : {"1", "2", "3", "6"}) {
    for (const std::string round : {"a", "b"}) {
      const std::string name = "run-" + stages + round;
      const CommandOutput output = run_zerolock(
          place.train(name, {"--stages", stages, "--alpha", "0.5", "--lr", "1e-3", "--head", "restricted"}));
      INFO(output.err);
      REQUIRE(output.status == 0);
      bytes[stages + round] = read_text(place.path(name) / weights_file);
    }
    CHECK_FALSE(bytes[stages + "a"].empty());
    CHECK(bytes[stages + "a"] == bytes[stages + "b"]);
  }
  CHECK(bytes["1a"] != bytes["3a"]);
}

TEST_CASE("another seed, another adapter") {
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("a", {"--windows", "1", "--seed", "1"})).status == 0);
  REQUIRE(run_zerolock(place.train("b", {"--windows", "1", "--seed", "2"})).status == 0);
  CHECK(read_text(place.path("a") / weights_file) != read_text(place.path("b") / weights_file));
}

TEST_CASE("Ctrl-C saves, and the resumed run ends in the bits of an undisturbed one") {
  const TinyWorkplace place;
  const std::vector<std::string> options{"--windows", "400", "--checkpoint-every", "3"};
  REQUIRE(run_zerolock(place.train("whole", options)).status == 0);

  CommandProcess process(place.train("stopped", options));
  REQUIRE(process.wait_for_error_text("window 20/400"));
  process.signal(SIGINT);
  const CommandOutput stopped = process.finish();
  INFO(stopped.err);
  REQUIRE(stopped.status == 130);
  CHECK(stopped.err.find("go on with: zerolock train --resume " + place.text_path("stopped")) !=
        std::string::npos);
  const json record = json::parse(read_text(place.path("stopped") / "run.json"));
  CHECK(record["status"] == "stopped");
  CHECK(record["durable"].get<int>() >= 20);
  CHECK(record["durable"].get<int>() < 400);
  CHECK(std::filesystem::exists(place.path("stopped") / weights_file));

  const CommandOutput resumed = run_zerolock({"train", "--resume", place.text_path("stopped")});
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(read_text(place.path("stopped") / weights_file) == read_text(place.path("whole") / weights_file));
  CHECK(timeless_metrics(place.path("stopped")) == timeless_metrics(place.path("whole")));
  const json summary = json::parse(read_text(place.path("stopped") / "summary.json"));
  const json whole = json::parse(read_text(place.path("whole") / "summary.json"));
  CHECK(summary["status"] == "finished");
  CHECK(summary["examples"] == whole["examples"]);
  CHECK(summary["windows"] == 400);
  CHECK(summary["adapter_sha256"] == whole["adapter_sha256"]);
  const auto trace = spans(place.path("stopped"));
  CHECK(trace.count({"forward", 0, 1, 0}) == 1);
  CHECK(trace.count({"forward", 0, 400, 0}) == 1);
}

TEST_CASE("two interrupts stop at once and leave the last checkpoint good") {
  const TinyWorkplace place;
  CommandProcess process(place.train("run", {"--windows", "4000", "--checkpoint-every", "10"}));
  REQUIRE(process.wait_for_error_text("window 200/4000"));
  process.signal(SIGTERM);
  process.signal(SIGINT);
  CHECK(process.finish().status == 130);

  CommandProcess resumed({"train", "--resume", place.text_path("run")});
  REQUIRE(resumed.wait_for_error_text(" to 4000, 3 stages"));
  resumed.signal(SIGINT);
  const CommandOutput output = resumed.finish();
  INFO(output.err);
  CHECK(output.status == 130);
  CHECK(output.err.find("windows 1 to 4000") == std::string::npos);
  CHECK(json::parse(read_text(place.path("run") / "run.json"))["durable"].get<int>() >= 150);
}

TEST_CASE("a run goes on in another number of stages, and for more windows") {
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("run", {"--windows", "3", "--stages", "3"})).status == 0);
  const CommandOutput resumed =
      run_zerolock({"train", "--resume", place.text_path("run"), "--windows", "6", "--stages", "2"});
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  const json summary = json::parse(read_text(place.path("run") / "summary.json"));
  CHECK(summary["windows"] == 6);
  CHECK(summary["stages"].size() == 2);
  CHECK(run_zerolock({"inspect", place.text_path("run")}).status == 0);

  // The same stages all along: prolonging in two sessions gives the bits of one.
  REQUIRE(run_zerolock(place.train("long", {"--windows", "6"})).status == 0);
  REQUIRE(run_zerolock(place.train("short", {"--windows", "3"})).status == 0);
  REQUIRE(run_zerolock({"train", "--resume", place.text_path("short"), "--windows", "6"}).status == 0);
  CHECK(read_text(place.path("long") / weights_file) == read_text(place.path("short") / weights_file));
  CHECK(timeless_metrics(place.path("long")) == timeless_metrics(place.path("short")));
}

TEST_CASE("a damaged newest checkpoint is named, and the run goes back to the one before") {
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("whole", {"--windows", "5"})).status == 0);
  REQUIRE(run_zerolock(place.train("run", {"--windows", "3"})).status == 0);
  const auto stage = place.path("run") / "checkpoints" / "2-2-2" / "stage-1";
  std::filesystem::path newest;
  for (const auto& folder : std::filesystem::directory_iterator(stage))
    newest = std::max(newest, folder.path());
  std::filesystem::resize_file(newest / "state.safetensors", 200);
  CHECK(run_zerolock({"inspect", place.text_path("run")}).status == 1);
  const CommandOutput resumed = run_zerolock({"train", "--resume", place.text_path("run"), "--windows", "5"});
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(resumed.err.find("going back to window") != std::string::npos);
  CHECK(read_text(place.path("run") / weights_file) == read_text(place.path("whole") / weights_file));
}

TEST_CASE("odd sizes are trained and said") {
  const TinyWorkplace place;
  const CommandOutput uneven = run_zerolock(place.train("uneven", {"--accumulate", "3"}));
  CHECK(uneven.status == 0);
  CHECK(uneven.err.find("40 rows do not fill windows of 2 x 3") != std::string::npos);
  const CommandOutput few = run_zerolock(place.train("few", {"--limit", "3"}));
  CHECK(few.status == 0);
  CHECK(json::parse(read_text(place.path("few") / "summary.json"))["examples"] == 3);
}
