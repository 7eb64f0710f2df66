// A cluster over a network: a coordinator and executors on hosts of their own, with certificates.

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "command_process.hpp"
#include "network_hosts.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

/// The coordinator on host 0 and an executor on each of the others; they have no model.
class Cluster {
 public:
  /// `link` of all, `flags` of the coordinator.
  Cluster(const TinyWorkplace& place, const NetworkHosts& hosts, const std::string& run,
          const std::vector<std::string>& link, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> job = place.train(
        run, flags + link +
                 std::vector<std::string>{"--json", "--stages", "3", "--listen", hosts.address(0) + ":7400",
                                          "--tls", place.text_path("certificates")});
    job.front() = "coordinator";
    coordinator_ = std::make_unique<CommandProcess>(job, hosts.launcher(0));
    for (std::size_t host = 1; host <= 3; ++host) {
      const std::string name = "node-" + std::to_string(host);
      executors_.push_back(std::make_unique<CommandProcess>(
          std::vector<std::string>{"executor", "--join", hosts.address(0) + ":7400", "--name", name, "--tls",
                                   place.text_path("certificates"), "--cache",
                                   place.text_path("cache-" + name)} +
              link,
          hosts.launcher(host)));
    }
  }

  CommandProcess& coordinator() { return *coordinator_; }

  json finish() {
    const CommandOutput output = coordinator_->finish();
    INFO(output.err);
    REQUIRE(output.status == 0);  // else the executors wait for another coordinator
    for (auto& executor : executors_) {
      const CommandOutput end = executor->finish();
      INFO(end.err);
      CHECK(end.status == 0);
    }
    return json::parse(output.out);
  }

 private:
  std::unique_ptr<CommandProcess> coordinator_;
  std::vector<std::unique_ptr<CommandProcess>> executors_;
};

void make_certificates(const TinyWorkplace& place, const NetworkHosts& hosts) {
  const CommandOutput made = run_zerolock(
      {"certs", "--out", place.text_path("certificates"), "--hosts",
       "node-1=" + hosts.address(1) + ",node-2=" + hosts.address(2) + ",node-3=" + hosts.address(3)});
  INFO(made.err);
  REQUIRE(made.status == 0);
}

bool skipped() {
  if (NetworkHosts::possible()) return false;
  WARN("skipped: making network namespaces needs root, ip and a kernel that allows it");
  return true;
}

}  // namespace

TEST_CASE("three hosts train the bits that threads do") {
  if (skipped()) return;
  const TinyWorkplace place;
  const NetworkHosts hosts(4);
  make_certificates(place, hosts);
  const json threads = json::parse(run_zerolock(place.train("threads", {"--json"})).out);
  std::vector<std::string> link{"--link", "local"};
  SECTION("over a plain network") {}
  SECTION("over one whose rate the kernel limits") {
    for (std::size_t host = 0; host < 4; ++host) {
      if (!hosts.limit(host, "20mbit")) {
        WARN("skipped: the kernel limits no rates");
        return;
      }
    }
  }
  SECTION("over imitated mobile links") {
    link.back() = "mobile";
  }
  Cluster cluster(place, hosts, "network", link);
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}

TEST_CASE("a cable that is out for five seconds costs no bit and no restart") {
  if (skipped()) return;
  const TinyWorkplace place;
  const NetworkHosts hosts(4);
  make_certificates(place, hosts);
  const std::vector<std::string> flags{"--windows", "200"};
  const json threads =
      json::parse(run_zerolock(place.train("threads", flags + std::vector<std::string>{"--json"})).out);
  Cluster cluster(place, hosts, "network", {"--link", "local"}, flags);
  const bool under_way = cluster.coordinator().wait_for_error_text("info: window ");
  INFO(cluster.coordinator().error_text());
  REQUIRE(under_way);
  hosts.cut(2);
  // How long the cable is out is the test's subject; nothing waits for this.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  hosts.restore(2);
  const json network = cluster.finish();
  CHECK(network["adapter_sha256"] == threads["adapter_sha256"]);
  for (const json& stage : network["stages"]) {
    CHECK(stage["restarts"] == 0);
    CHECK(stage["incarnation"] == 1);
  }
}
