// Who joins a run, when, and what becomes of those that it does not need.

#include <catch2/catch.hpp>
#include <csignal>

#include "loopback_cluster.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const std::vector<std::string> token{"--token", "secret"};

json trained_as_threads(const TinyWorkplace& place, const std::vector<std::string>& flags) {
  return summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + flags)));
}

/// "a: 0 1, b: 2, c:" of executors that are shown.
std::string hosts_text(const json& status) {
  std::string text;
  for (const json& executor : status["executors"]) {
    text += (text.empty() ? "" : ", ") + executor["name"].get<std::string>() + ":";
    for (const json& stage : executor["stages"]) text += " " + stage.dump();
  }
  return text;
}

}  // namespace

TEST_CASE("an executor that joins when training has begun stands by, and ends with the run") {
  const TinyWorkplace place;
  const std::vector<std::string> flags{"--stages", "2", "--windows", "300"};
  const json threads = trained_as_threads(place, flags);
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags), token);
  cluster.join("b");
  cluster.join("c");
  REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
  cluster.join("a");
  REQUIRE(cluster.coordinator().wait_for_error_text("executor a has joined, stands by as a spare"));
  const json status = cluster.status();
  CHECK(hosts_text(status) == "a:, b: 0, c: 1");
  CHECK(status["executors"][0]["state"] == "spare");
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("an executor that is gone before the start is not waited for and gets nothing") {
  const TinyWorkplace place;
  const std::vector<std::string> flags{"--stages", "2"};
  const json threads = trained_as_threads(place, flags);
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags), token);
  cluster.join("a");
  REQUIRE(cluster.coordinator().wait_for_error_text("executor a has joined (1 of 2)"));
  SECTION("it has left") {
    cluster.interrupt("a");
  }
  SECTION("it was killed") {
    cluster.kill("a");
  }
  REQUIRE(cluster.coordinator().wait_for_error_text("executor a is gone"));
  CHECK(cluster.status()["executors"].empty());
  cluster.join("b");
  REQUIRE(cluster.coordinator().wait_for_error_text("executor b has joined (1 of 2)"));
  cluster.join("c");
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("a spare is not counted, gets nothing at the start, and takes over what is lost") {
  const TinyWorkplace place;
  const std::vector<std::string> flags{"--stages", "2", "--windows", "300"};
  const json threads = trained_as_threads(place, flags);
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags), token);
  cluster.join("a", {"--spare"});
  REQUIRE(cluster.coordinator().wait_for_error_text("executor a has joined, stands by as a spare"));
  const json waiting = cluster.status();
  CHECK(waiting["phase"] == "waiting");
  CHECK(waiting["executors"][0]["state"] == "spare");
  cluster.join("b", {"--gflops", "7"});
  REQUIRE(cluster.coordinator().wait_for_error_text("executor b has joined (1 of 2)"));
  cluster.join("c");
  REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
  const json training = cluster.status();
  CHECK(hosts_text(training) == "a:, b: 0, c: 1");
  for (const json& executor : training["executors"]) {
    const double rate = executor["gigaflops"].get<double>() / executor["cores"].get<double>();
    if (executor["name"] == "b") {
      CHECK(rate == 7);
    } else {
      CHECK(rate > 0);
    }
  }
  cluster.kill("b");
  REQUIRE(cluster.coordinator().wait_for_error_text("stage 0 goes to executor a"));
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("a coordinator cuts layers for as many executors as it is told, and only so that they fit") {
  const TinyWorkplace place;
  const std::vector<std::string> listen{"--listen", "127.0.0.1:0"};
  check_refused(run_zerolock(coordinator_arguments(place, "network", listen + token)), 2,
                "--executors: is required without --stages and --layers");
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", {"--executors", "1"}), token);
  const CommandProcess executor(std::vector<std::string>{"executor", "--join", cluster.address(), "--name",
                                                         "a", "--cache", place.text_path("cache-a"),
                                                         "--memory-limit", "100KiB"} +
                                token);
  const CommandOutput end = cluster.coordinator().finish();
  INFO(end.err);
  CHECK(end.status == 2);
  CHECK(end.error_lines().back().find("100 KiB") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("network")));
}

TEST_CASE("of more executors than stages the last ones stand by") {
  const TinyWorkplace place;
  const std::vector<std::string> flags{"--stages", "2", "--windows", "300"};
  const json threads = trained_as_threads(place, flags);
  LoopbackCluster cluster(
      place, coordinator_arguments(place, "network", flags + std::vector<std::string>{"--executors", "4"}),
      token);
  for (const char* name : {"d", "b", "a", "c"}) cluster.join(name);
  REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
  CHECK(hosts_text(cluster.status()) == "a: 0, b: 1, c:, d:");
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("fewer executors than stages host several each") {
  const TinyWorkplace place;
  const std::vector<std::string> flags{"--stages", "3", "--windows", "300"};
  const json threads = trained_as_threads(place, flags);
  std::vector<std::string> executors{"a"};
  std::string hosts = "a: 0 1 2";
  SECTION("one") {}
  SECTION("two") {
    executors = {"b", "a"};
    hosts = "a: 0 1, b: 2";
  }
  const std::string out = "network-" + std::to_string(executors.size());
  LoopbackCluster cluster(
      place,
      coordinator_arguments(
          place, out, flags + std::vector<std::string>{"--executors", std::to_string(executors.size())}),
      token);
  for (const std::string& name : executors) cluster.join(name);
  REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
  CHECK(hosts_text(cluster.status()) == hosts);
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("two executors do not share a work folder") {
  const TinyWorkplace place;
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", {"--stages", "2"}), token);
  const std::vector<std::string> work{"--work", place.text_path("work")};
  cluster.join("a", work);
  REQUIRE(cluster.coordinator().wait_for_error_text("executor a has joined"));
  const CommandOutput second = run_zerolock(std::vector<std::string>{"executor", "--join", cluster.address(),
                                                                     "--name", "b", "--log-level", "warn"} +
                                            token + work);
  check_refused(second, 2, place.text_path("work") + ": another executor works in this folder");
  cluster.join("b");
  cluster.finish();
  CHECK_FALSE(std::filesystem::exists(place.path("work")));
}

TEST_CASE("an executor refuses devices that it does not have, and computes with more threads than one") {
  const TinyWorkplace place;
  const std::vector<std::string> nowhere{"executor", "--join", "127.0.0.1:1", "--device"};
  check_refused(run_zerolock(nowhere + std::vector<std::string>{"cuda:0"}), 2,
                "--device: 'cuda:0' is not to be had: this build has no CUDA; allowed: cpu");
  check_refused(run_zerolock(nowhere + std::vector<std::string>{"gpu"}), 2,
                "--device: 'gpu' is no device; allowed: cpu");
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", {"--stages", "2"}), token);
  cluster.join("a", {"--threads", "2", "--device", "cpu"});
  cluster.join("b", {"--threads", "2"});
  CHECK(cluster.finish()["windows"] == 5);
}
TEST_CASE("without stages the layers are cut for what the executors can do, also when the run goes on") {
  const TinyWorkplace place;
  const std::vector<std::string> windows{"--windows", "300"};
  LoopbackCluster cluster(
      place, coordinator_arguments(place, "network", windows + std::vector<std::string>{"--executors", "2"}),
      token);
  cluster.join("c", {"--spare"});
  REQUIRE(cluster.coordinator().wait_for_error_text("executor c has joined, stands by as a spare"));
  cluster.join("a", {"--gflops", "100"});
  REQUIRE(cluster.coordinator().wait_for_error_text("executor a has joined (1 of 2)"));
  const json waiting = cluster.status();
  CHECK(waiting["phase"] == "waiting");
  CHECK(waiting["stages"].empty());
  CHECK(waiting["executors_wanted"] == 2);
  CHECK(waiting["executors"].size() == 2);
  // Twice as fast, but without room for both stages.
  cluster.join("b", {"--gflops", "200", "--memory-limit", "2200KiB"});
  REQUIRE(cluster.coordinator().wait_for_error_text("why: stage "));
  REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
  const json training = cluster.status();
  cluster.kill_coordinator();  // while there is still much to do
  cluster.resume_coordinator(place.text_path("network"));
  std::map<std::string, int> counts;
  std::string layers;
  for (const json& stage : training["stages"]) {
    const int count = stage["layers"][1].get<int>() - stage["layers"][0].get<int>() + 1;
    counts[stage["executor"].get<std::string>()] += count;
    layers += (layers.empty() ? "" : ",") + std::to_string(count);
  }
  INFO(layers);
  REQUIRE(training["stages"].size() == 2);
  CHECK(counts["c"] == 0);
  CHECK(counts["a"] > 0);
  CHECK(counts["a"] < counts["b"]);
  const json threads = trained_as_threads(place, windows + std::vector<std::string>{"--layers", layers});
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}
