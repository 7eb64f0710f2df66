// The same training with stages as threads, as processes, and as executors that join a coordinator.

#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "tiny_model.hpp"

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
