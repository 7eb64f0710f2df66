// Processes of a run that die, stop or are cut off: it goes on, and ends with the bytes of a run without.

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "loopback_cluster.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const std::vector<std::string> token{"--token", "secret"};
const std::vector<std::string> long_run{"--stages", "3", "--windows", "200"};

json undisturbed(const TinyWorkplace& place) {
  return summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + long_run)));
}

/// Fails the test unless just these stages were started again, and none of the others.
void check_restarted(const json& summary, const std::vector<std::uint64_t>& stages) {
  for (const json& stage : summary["stages"]) {
    const auto number = stage["stage"].get<std::uint64_t>();
    INFO("stage " << number);
    const bool restarted = std::find(stages.begin(), stages.end(), number) != stages.end();
    CHECK((stage["restarts"] > 0) == restarted);
    if (!restarted) CHECK(stage["incarnation"] == 1);
  }
}

/// What each stage has learnt in each window; a line that came twice fails the test.
std::map<std::string, std::string> losses_of(const std::filesystem::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::map<std::string, std::string> losses;
  for (std::string line; std::getline(file, line);) {
    const json entry = json::parse(line);
    CHECK(losses.emplace(entry["stage"].dump() + "/" + entry["window"].dump(), entry["loss"].dump()).second);
  }
  return losses;
}

void join_three(LoopbackCluster& cluster) {
  for (const char* name : {"a", "b", "c"}) cluster.join(name);
}

/// Ids of the processes that a process has started.
std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

}  // namespace

TEST_CASE("processes that are killed are started again, and nobody else") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  CommandProcess run(
      place.train("processes", std::vector<std::string>{"--json", "--placement", "processes"} + long_run));
  for (const char* window : {"window 30/", "window 60/", "window 90/"}) {
    REQUIRE(run.wait_for_error_text(window));
    const std::vector<pid_t> executors = children_of(run.id());
    REQUIRE_FALSE(executors.empty());
    ::kill(executors.front(), SIGKILL);
    REQUIRE(run.wait_for_error_text(" restarted from window "));
  }
  const json summary = summary_of(run.finish());
  CHECK(summary["adapter_sha256"] == expected["adapter_sha256"]);
  std::uint64_t restarts = 0;
  for (const json& stage : summary["stages"]) {
    restarts += stage["restarts"].get<std::uint64_t>();
    if (stage["restarts"] == 0) CHECK(stage["incarnation"] == 1);
  }
  CHECK(restarts == 3);
}

TEST_CASE("a spare takes over from an executor that is killed") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", long_run), token);
  join_three(cluster);
  REQUIRE(cluster.coordinator().wait_for_error_text("window 10/"));
  cluster.join("d");
  REQUIRE(cluster.coordinator().wait_for_error_text("executor d has joined, stands by as a spare"));
  cluster.kill("b");
  REQUIRE(cluster.coordinator().wait_for_error_text("stage 1 goes to executor d"));
  const json summary = cluster.finish();
  CHECK(summary["adapter_sha256"] == expected["adapter_sha256"]);
  check_restarted(summary, {1});
}

TEST_CASE("an executor that was stopped finds its stage elsewhere, drops it, and stands by") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  LoopbackCluster cluster(
      place,
      coordinator_arguments(place, "network", long_run + std::vector<std::string>{"--absence-limit", "3"}),
      token);
  join_three(cluster);
  REQUIRE(cluster.coordinator().wait_for_error_text("window 10/"));
  CommandProcess& stopped = *cluster.executors().at(1);
  stopped.signal(SIGSTOP);
  cluster.join("d");
  REQUIRE(cluster.coordinator().wait_for_error_text("stage 1 goes to executor d"));
  stopped.signal(SIGCONT);
  REQUIRE(stopped.wait_for_error_text("joining again without stages"));
  const json summary = cluster.finish();
  CHECK(summary["adapter_sha256"] == expected["adapter_sha256"]);
  check_restarted(summary, {1});
}

TEST_CASE("a coordinator that is killed and started again finds its executors at work") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", long_run), token);
  join_three(cluster);
  REQUIRE(cluster.coordinator().wait_for_error_text("window 40/"));
  cluster.kill_coordinator();
  cluster.resume_coordinator(place.text_path("network"));
  const json summary = cluster.finish();
  CHECK(summary["adapter_sha256"] == expected["adapter_sha256"]);
  check_restarted(summary, {});
  CHECK(losses_of(place.path("network")) == losses_of(place.path("threads")));
}

TEST_CASE("after a power cut all go on from their checkpoints") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", long_run), token);
  join_three(cluster);
  REQUIRE(cluster.coordinator().wait_for_error_text("window 40/"));
  cluster.kill_coordinator();
  for (const char* name : {"a", "b", "c"}) cluster.kill(name);
  cluster.resume_coordinator(place.text_path("network"));
  join_three(cluster);
  CHECK(cluster.finish()["adapter_sha256"] == expected["adapter_sha256"]);
}

TEST_CASE("a run without enough executors pauses, says why, and goes on later") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  {
    LoopbackCluster cluster(
        place,
        coordinator_arguments(place, "network", long_run + std::vector<std::string>{"--vacancy-limit", "1"}),
        token);
    join_three(cluster);
    REQUIRE(cluster.coordinator().wait_for_error_text("window 10/"));
    cluster.kill("b");
    const CommandOutput paused = cluster.coordinator().finish();
    CHECK(paused.status == 1);
    const std::string last = paused.error_lines().back();
    CHECK(last.find("training has paused: stage 1 has no executor because ") != std::string::npos);
    CHECK(last.find("; no spare one joined within 1 s") != std::string::npos);
    CHECK(last.find("go on with: zerolock coordinator --resume ") != std::string::npos);
  }
  LoopbackCluster cluster(place, {"coordinator", "--resume", place.text_path("network"), "--json"}, token);
  for (const char* name : {"x", "y"}) cluster.join(name);
  cluster.join("z");
  CHECK(cluster.finish()["adapter_sha256"] == expected["adapter_sha256"]);
}

TEST_CASE("a stage that is lost too often pauses the run with the whole chain of causes") {
  const TinyWorkplace place;
  const json expected = undisturbed(place);
  CommandProcess run(place.train(
      "run",
      std::vector<std::string>{"--json", "--placement", "processes", "--restarts-max", "0"} + long_run));
  REQUIRE(run.wait_for_error_text("window 30/"));
  ::kill(children_of(run.id()).at(0), SIGKILL);
  const CommandOutput paused = run.finish();
  CHECK(paused.status == 1);
  CHECK(paused.error_lines().back().find("lost its executor 1 times within 60 s, the last time because the "
                                         "process of executor stage-000") != std::string::npos);
  const json resumed = summary_of(run_zerolock({"train", "--resume", place.text_path("run"), "--json"}));
  CHECK(resumed["adapter_sha256"] == expected["adapter_sha256"]);
}

TEST_CASE("whoever is killed, again and again, alone or with others, the bytes are the same") {
  const std::vector<std::string> names{"a", "b", "c"};
  const std::vector<std::string> flags{"--stages", "3", "--windows", "600", "--restarts-max", "1000"};
  const TinyWorkplace place;
  const json expected =
      summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + flags)));
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags), token);
  for (const std::string& name : names) cluster.join(name);
  REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
  // Bit 3: the coordinator. Each alone, neighbours, coordinator and some, all.
  std::uint64_t done = 0;
  for (const unsigned victims : {1u, 2u, 4u, 8u, 3u, 6u, 12u, 9u, 15u, 7u}) {
    INFO("victims " << victims << " after window " << done);
    const std::uint64_t before = done;
    while (done < before + 10) done = cluster.status()["windows_done"].get<std::uint64_t>();
    if ((victims & 8u) != 0) cluster.kill_coordinator();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if ((victims >> i & 1u) != 0) cluster.kill(names[i]);
    }
    if ((victims & 8u) != 0) {
      cluster.resume_coordinator(place.text_path("network"));
      REQUIRE(cluster.coordinator().wait_for_error_text("waiting at "));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if ((victims >> i & 1u) != 0) cluster.join(names[i]);
    }
  }
  CHECK(cluster.finish()["adapter_sha256"] == expected["adapter_sha256"]);
}
