// The same training with stages as threads, as processes, and as executors that join a coordinator.

#include <ATen/ATen.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "tensors/files/model_files.hpp"
#include "tiny_model.hpp"

#include <catch2/catch.hpp>

using namespace zerolock::testing;
using nlohmann::json;

namespace {

json summary_of(const CommandOutput& output) {
  INFO(output.err);
  REQUIRE(output.status == 0);
  return json::parse(output.out);
}

}  // namespace

TEST_CASE("processes train the bits that threads do") {
  const TinyWorkplace place;
  for (const char* stages : {"1", "2", "3", "6"}) {
    INFO(stages << " stages");
    const std::string out = std::string("run-") + stages;
    const json threads = summary_of(run_zerolock(place.train(out + "-t", {"--stages", stages, "--json"})));
    const json processes = summary_of(
        run_zerolock(place.train(out + "-p", {"--stages", stages, "--placement", "processes", "--json"})));
    CHECK(processes["adapter_sha256"] == threads["adapter_sha256"]);
    for (const json& stage : processes["stages"]) {
      CHECK(stage["pss_peak_bytes"].get<std::int64_t>() > 0);
      CHECK(stage["peak_bytes"]["activations"].get<std::int64_t>() > 0);
    }
    CHECK_FALSE(std::filesystem::exists(place.path(out + "-p") / "executors"));
  }
}

TEST_CASE("processes are calibrated with the bits that threads are") {
  const TinyWorkplace place;
  const std::vector<std::string> recipe{"--recipe", "auto", "--json"};
  const json threads = summary_of(run_zerolock(place.train("t", recipe)));
  const json processes = summary_of(
      run_zerolock(place.train("p", recipe + std::vector<std::string>{"--placement", "processes"})));
  CHECK(threads["recipe"].dump().find("calibrated") != std::string::npos);
  CHECK(processes["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("whoever embeds, the bits are the same") {
  const TinyWorkplace place;
  const auto trained = [&place](const std::string& out, const std::vector<std::string>& more) {
    return summary_of(run_zerolock(place.train(out, std::vector<std::string>{"--json"} + more)));
  };
  const std::vector<std::string> source{"--embed-at", "source"};
  const std::vector<std::string> processes{"--placement", "processes"};
  const json stage = trained("stage", {});
  const json threads = trained("threads", source);
  CHECK(threads["adapter_sha256"] == stage["adapter_sha256"]);
  const auto weights = [](const json& summary) {
    return summary["stages"][0]["peak_bytes"]["weights"].get<std::int64_t>();
  };
  CHECK(weights(threads) == weights(stage) - std::int64_t{320} * 64 * 4);
  CHECK(trained("processes", source + processes)["adapter_sha256"] == stage["adapter_sha256"]);
  // Calibration goes the same way; what is embedded is not rounded, and whose process dies is fed again.
  const std::vector<std::string> recipe{"--recipe", "auto", "--wire-type", "int8"};
  const json rounded = trained("rounded", recipe + processes);
  write_text(place.path("night.toml"),
             "[[fault]]\nkind = \"sigkill\"\nstage = 0\nwindow = 3\nmicro_batch = 0\nat = \"forward-end\"\n");
  const CommandOutput killed = run_zerolock(place.train(
      "killed", recipe + processes + source +
                    std::vector<std::string>{"--json", "--faults", place.text_path("night.toml")}));
  CHECK(summary_of(killed)["adapter_sha256"] == rounded["adapter_sha256"]);
  CHECK(killed.err.find("executor stage-0000") != std::string::npos);
}

TEST_CASE("executors whose source embeds fetch no embedding") {
  const TinyWorkplace place;
  const json threads = summary_of(run_zerolock(place.train("threads", {"--json", "--stages", "1"})));
  std::vector<std::string> job = place.train("network", {"--json", "--stages", "1", "--listen", "127.0.0.1:0",
                                                         "--token", "secret", "--embed-at", "source"});
  job.front() = "coordinator";
  CommandProcess coordinator(job);
  REQUIRE(coordinator.wait_for_error_text("waiting at "));
  const std::string said = coordinator.error_text();
  const std::string address = said.substr(said.find("waiting at ") + 11);
  const CommandOutput executor =
      run_zerolock({"executor", "--join", address.substr(0, address.find(' ')), "--name", "a", "--token",
                    "secret", "--cache", place.text_path("cache")});
  INFO(executor.err);
  CHECK(executor.status == 0);
  CHECK(summary_of(coordinator.finish())["adapter_sha256"] == threads["adapter_sha256"]);
  // What was not fetched is a hole of zeros in the cached file.
  std::string embedding;
  {
    const auto files = zerolock::ModelFiles::open(place.model());
    const at::Tensor rows = files->tensor("model.embed_tokens.weight").expand();
    embedding.assign(reinterpret_cast<const char*>(rows.data_ptr<float>()), 4096);
  }
  bool found_weights = false;
  for (const auto& file : std::filesystem::recursive_directory_iterator(place.path("cache"))) {
    if (file.path().extension() != ".safetensors") continue;
    found_weights = true;
    CHECK(read_text(file.path()).find(embedding) == std::string::npos);
    CHECK(read_text(place.path("model") / file.path().filename()).find(embedding) != std::string::npos);
  }
  CHECK(found_weights);
}

TEST_CASE("a run of processes is stopped and goes on, also as threads") {
  const TinyWorkplace place;
  const std::vector<std::string> whole{"--windows", "40", "--json"};
  const json expected = summary_of(run_zerolock(place.train("whole", whole)));
  CommandProcess stopped(place.train("run", whole + std::vector<std::string>{"--placement", "processes"}));
  REQUIRE(stopped.wait_for_error_text("window 2/40"));
  stopped.signal(SIGINT);
  const int status = stopped.finish().status;
  REQUIRE((status == 130 || status == 0));
  if (status == 0) return;  // it was faster than the signal
  const json resumed = summary_of(
      run_zerolock({"train", "--resume", place.text_path("run"), "--json", "--placement", "threads"}));
  CHECK(resumed["adapter_sha256"] == expected["adapter_sha256"]);
}

TEST_CASE("executors without the model join a coordinator and train the same bits") {
  const TinyWorkplace place;
  const json threads = summary_of(run_zerolock(place.train("threads", {"--json"})));
  std::vector<std::string> job =
      place.train("network", {"--json", "--stages", "3", "--listen", "127.0.0.1:0", "--token", "secret"});
  job.front() = "coordinator";
  CommandProcess coordinator(job);
  REQUIRE(coordinator.wait_for_error_text("waiting at "));
  const std::string said = coordinator.error_text();
  const std::string address = said.substr(said.find("waiting at ") + 11);
  const std::string join = address.substr(0, address.find(' '));
  std::vector<std::unique_ptr<CommandProcess>> executors;
  for (const char* name : {"a", "b", "c"}) {
    executors.push_back(std::make_unique<CommandProcess>(
        std::vector<std::string>{"executor", "--join", join, "--name", name, "--token", "secret", "--cache",
                                 place.text_path("cache")}));
  }
  const json network = summary_of(coordinator.finish());
  CHECK(network["adapter_sha256"] == threads["adapter_sha256"]);
  for (auto& executor : executors) {
    const CommandOutput output = executor->finish();
    INFO(output.err);
    CHECK(output.status == 0);
  }
}

TEST_CASE("hidden states travel as they are computed, or rounded where that is asked for") {
  const TinyWorkplace place;
  const auto trained = [&place](const std::string& out, const std::vector<std::string>& more) {
    const json summary =
        summary_of(run_zerolock(place.train(out, std::vector<std::string>{"--json"} + more)));
    return summary["adapter_sha256"].get<std::string>();
  };
  const auto over_wire = [&trained](const std::string& type) {
    return trained(type, {"--placement", "processes", "--wire-type", type});
  };
  const std::string threads = trained("threads", {});
  CHECK(over_wire("fp32") == threads);
  CHECK(over_wire("compute") == threads);
  const std::string bf16 = over_wire("bf16");
  const std::string int8 = over_wire("int8");
  CHECK(bf16 != threads);
  CHECK(int8 != threads);
  CHECK(int8 != bf16);
  const std::string threads_bf16 = trained("threads-bf16", {"--dtype", "bf16"});
  CHECK(trained("processes-bf16", {"--dtype", "bf16", "--placement", "processes"}) == threads_bf16);

  // Rounding is part of what a run is.
  const CommandOutput resumed =
      run_zerolock({"train", "--resume", place.text_path("int8"), "--wire-type", "fp32"});
  CHECK(resumed.status == 2);
  CHECK(resumed.err.find("--wire-type") != std::string::npos);
}

TEST_CASE("a wire type is refused where nothing travels, or where it would make the result depend on hosts") {
  const TinyWorkplace place;
  const CommandOutput threads = run_zerolock(place.train("run", {"--wire-type", "bf16"}));
  INFO(threads.err);
  CHECK(threads.status == 2);
  CHECK(threads.error_lines().size() == 1);
  CHECK(threads.err.find("--wire-type") != std::string::npos);
  std::vector<std::string> job =
      place.train("run", {"--listen", "127.0.0.1:0", "--token", "secret", "--executors", "2", "--stages", "3",
                          "--wire-type", "int8"});
  job.front() = "coordinator";
  const CommandOutput shared_hosts = run_zerolock(job);
  INFO(shared_hosts.err);
  CHECK(shared_hosts.status == 2);
  CHECK(shared_hosts.err.find("--wire-type") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("run")));
}

TEST_CASE("a coordinator says no in one line") {
  const TinyWorkplace place;
  std::vector<std::string> job = place.train("run", {"--listen", "0.0.0.0:0", "--stages", "2"});
  job.front() = "coordinator";
  const CommandOutput open_port = run_zerolock(job);
  INFO(open_port.err);
  CHECK(open_port.status == 2);
  CHECK(open_port.err.find("--insecure") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("run")));
}
