// Which command goes on with a run, and what its configuration may hold.

#include <catch2/catch.hpp>
#include <csignal>

#include "loopback_cluster.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const std::vector<std::string> token{"--token", "a-secret-token"};
const std::vector<std::string> flags{"--stages", "2", "--windows", "800"};

/// Fails the test unless the run was under way when it was stopped, and had something left to do.
void stop_under_way(CommandProcess& training) {
  REQUIRE(training.wait_for_error_text("info: window "));
  training.signal(SIGINT);
}

}  // namespace

TEST_CASE("a coordinator's run goes on with a coordinator, and no other command takes it for its own") {
  const TinyWorkplace place;
  const json threads =
      summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + flags)));
  {
    LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags), token);
    CommandProcess& first = cluster.join("a");
    CommandProcess& second = cluster.join("b");
    stop_under_way(cluster.coordinator());
    const CommandOutput stopped = cluster.coordinator().finish();
    INFO(stopped.err);
    REQUIRE(stopped.status == 130);
    CHECK(stopped.err.find("go on with: zerolock coordinator --resume " + place.text_path("network") +
                           "\n") != std::string::npos);
    CHECK(first.finish().status == 0);
    CHECK(second.finish().status == 0);
  }
  const std::string config = read_text(place.path("network") / "config.toml");
  INFO(config);
  CHECK(config.find("listen = ") != std::string::npos);
  CHECK(config.find("token") == std::string::npos);
  check_refused(
      run_zerolock({"train", "--resume", place.text_path("network")}), 2,
      "is a run of another command; go on with: zerolock coordinator --resume " + place.text_path("network"));
  check_refused(run_zerolock(coordinator_arguments(
                    place, "network", flags + token + std::vector<std::string>{"--listen", "127.0.0.1:0"})),
                2, "zerolock coordinator --resume");

  LoopbackCluster resumed(place, {"coordinator", "--resume", place.text_path("network"), "--json"}, token);
  resumed.join("a");
  resumed.join("b");
  CHECK(resumed.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("stages go back to the executors that had them, unless these are counted anew") {
  const TinyWorkplace place;
  const json threads =
      summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + flags)));
  const auto stop = [](LoopbackCluster& cluster) {
    cluster.coordinator().signal(SIGINT);
    REQUIRE(cluster.coordinator().finish().status == 130);
    for (const auto& executor : cluster.executors()) CHECK(executor->finish().status == 0);
  };
  {
    LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags), token);
    cluster.join("c", {"--spare"});
    REQUIRE(cluster.coordinator().wait_for_error_text("executor c has joined"));
    cluster.join("a");
    cluster.join("b");
    REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
    cluster.kill("a");
    REQUIRE(cluster.coordinator().wait_for_error_text("stage 0 goes to executor c"));
    stop(cluster);
  }
  const std::vector<std::string> resume{"coordinator", "--resume", place.text_path("network"), "--json"};
  {
    LoopbackCluster same(place, resume, token);
    same.join("b");
    same.join("c");
    REQUIRE(same.coordinator().wait_for_error_text("info: window "));
    CHECK(same.status()["stages"][0]["executor"] == "c");
    stop(same);
  }
  LoopbackCluster anew(place, resume + std::vector<std::string>{"--executors", "2"}, token);
  anew.join("b");
  anew.join("c");
  REQUIRE(anew.coordinator().wait_for_error_text("info: window "));
  CHECK(anew.status()["stages"][0]["executor"] == "b");
  CHECK(anew.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("a run that began on one machine goes on over the network") {
  const TinyWorkplace place;
  const json threads =
      summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + flags)));
  CommandProcess training(place.train("run", flags));
  stop_under_way(training);
  REQUIRE(training.finish().status == 130);
  LoopbackCluster resumed(place, {"coordinator", "--resume", place.text_path("run"), "--json"}, token);
  resumed.join("a");
  resumed.join("b");
  CHECK(resumed.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}
