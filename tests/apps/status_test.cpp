// A running coordinator as `zerolock status` and Prometheus see it.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

/// The text between two others in what a process has said.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t begin = text.find(before) + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

/// A coordinator of two stages that waits for two executors.
struct WaitingCoordinator {
  explicit WaitingCoordinator(const TinyWorkplace& place, const std::vector<std::string>& more)
      : process(arguments(place, more)) {
    REQUIRE(process.wait_for_error_text("waiting at "));
    address = between(process.error_text(), "waiting at ", " ");
  }

  static std::vector<std::string> arguments(const TinyWorkplace& place,
                                            const std::vector<std::string>& more) {
    std::vector<std::string> job =
        place.train("run", std::vector<std::string>{"--stages", "2", "--listen", "127.0.0.1:0"} + more);
    job.front() = "coordinator";
    return job;
  }

  CommandProcess process;
  std::string address;
};

std::unique_ptr<CommandProcess> executor(const TinyWorkplace& place, const std::string& coordinator,
                                         const std::string& name, const std::vector<std::string>& proof) {
  return std::make_unique<CommandProcess>(std::vector<std::string>{"executor", "--join", coordinator,
                                                                   "--name", name, "--cache",
                                                                   place.text_path("cache-" + name)} +
                                          proof);
}

json status_of(const std::string& coordinator, const std::vector<std::string>& proof) {
  const CommandOutput output = run_zerolock(
      std::vector<std::string>{"status", "--coordinator", coordinator, "--once", "--json"} + proof);
  INFO(output.err);
  REQUIRE(output.status == 0);
  CHECK(output.err.empty());
  return json::parse(output.out);
}

/// A port of this machine that somebody listens on.
class TakenPort {
 public:
  TakenPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof own;
    auto* address = reinterpret_cast<sockaddr*>(&own);
    REQUIRE(::bind(socket_, address, sizeof own) == 0);
    REQUIRE(::listen(socket_, 1) == 0);
    REQUIRE(::getsockname(socket_, address, &length) == 0);
    text_ = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }
  ~TakenPort() { ::close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  int socket_;
  std::string text_;
};

/// What an HTTP server on this machine answers to GET /metrics.
std::string scrape(const std::string& address) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  server.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&server), sizeof server) == 0);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  REQUIRE(::write(socket, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(socket, buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(socket);
  return answer;
}

/// Status 2, or 1 where the run is at fault, and one line that holds `text`.
void check_refused(const std::vector<std::string>& arguments, int status, const std::string& text) {
  const CommandOutput output = run_zerolock(arguments);
  INFO(output.err);
  CHECK(output.status == status);
  CHECK(output.error_lines().size() == 1);
  CHECK(output.err.find(text) != std::string::npos);
  CHECK(output.out.empty());
}

}  // namespace

TEST_CASE("a coordinator shows executors as they join, its stages, and its metrics") {
  const TinyWorkplace place;
  const std::vector<std::string> proof{"--token", "secret"};
  WaitingCoordinator coordinator(
      place, proof + std::vector<std::string>{"--windows", "4000", "--metrics", "127.0.0.1:0"});
  const std::string metrics = between(coordinator.process.error_text(), "metrics at http://", "/metrics");

  const json waiting = status_of(coordinator.address, proof);
  CHECK(waiting["phase"] == "waiting");
  CHECK(waiting["executors_wanted"] == 2);
  CHECK(waiting["executors"].empty());
  CHECK(waiting["stages"].size() == 2);
  CHECK(waiting["stages"][0]["executor"].is_null());
  CHECK(scrape(metrics).find("zerolock_executors{state=\"running\"} 0\n") != std::string::npos);

  const auto first = executor(place, coordinator.address, "a", proof);
  REQUIRE(coordinator.process.wait_for_error_text("executor a has joined"));
  const json one = status_of(coordinator.address, proof);
  REQUIRE(one["executors"].size() == 1);
  CHECK(one["executors"][0]["name"] == "a");
  CHECK(one["executors"][0]["state"] == "joined");
  CHECK(one["executors"][0]["cores"].get<int>() > 0);

  const auto second = executor(place, coordinator.address, "b", proof);
  REQUIRE(coordinator.process.wait_for_error_text("window "));
  const json training = status_of(coordinator.address, proof);
  CHECK(training["phase"] == "training");
  CHECK(training["run"] == waiting["run"]);
  CHECK(training["windows_last"] == 4000);
  CHECK(training["windows_done"].get<int>() > 0);
  CHECK(training["examples_per_second"].get<double>() > 0);
  CHECK(training["executors"][0]["state"] == "running");
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const json& shown = training["stages"][stage];
    CHECK(shown["executor"] == (stage == 0 ? "a" : "b"));
    CHECK(shown["layers"].size() == 2);
    CHECK(shown["committed_window"].get<int>() > 0);
    CHECK(shown["durable_window"].get<int>() > 0);
    CHECK(shown["task_loss"].is_number());
    CHECK(shown["restarts"] == 0);
    CHECK(shown["incarnation"] == 1);
  }
  // Executors look at their buffers once a second.
  json queues;
  while (queues.is_null()) queues = status_of(coordinator.address, proof)["stages"][1]["queues"];
  CHECK(queues["inbound_waiting"] <= 4);  // --depth
  CHECK(queues["inbound_held"] >= queues["inbound_waiting"]);
  CHECK(queues["outbound_held"] == 0);  // nothing follows the last stage
  const std::string answer = scrape(metrics);
  INFO(answer);
  CHECK(std::stod(between(answer, "zerolock_queue_micro_batches{stage=\"1\",queue=\"inbound_held\"} ",
                          "\n")) <= 1000);
  CHECK(answer.find("200 OK") != std::string::npos);
  CHECK(answer.find("zerolock_executors{state=\"running\"} 2\n") != std::string::npos);
  CHECK(answer.find("# TYPE zerolock_restarts_total counter\n") != std::string::npos);
  CHECK(answer.find("zerolock_restarts_total{stage=\"1\"} 0\n") != std::string::npos);
  CHECK(std::stod(between(answer, "zerolock_window{stage=\"0\"} ", "\n")) > 0);
  CHECK(std::stod(between(answer, "zerolock_task_loss{stage=\"1\"} ", "\n")) > 0);
  CHECK(std::stod(between(answer, "\nzerolock_examples_total ", "\n")) > 0);

  // Who follows the run sees its end.
  CommandProcess follower(
      std::vector<std::string>{"status", "--coordinator", coordinator.address, "--log-level", "debug"} +
      proof);
  REQUIRE(follower.wait_for_error_text("answers"));
  coordinator.process.signal(SIGINT);
  const CommandOutput followed = follower.finish();
  INFO(followed.err);
  INFO(followed.out);
  CHECK(followed.status == 0);
  CHECK(followed.out.find("stopped: window ") != std::string::npos);
  CHECK(followed.out.find('\x1b') == std::string::npos);
  CHECK(coordinator.process.finish().status == 130);
  CHECK(first->finish().status == 0);
  CHECK(second->finish().status == 0);
}

TEST_CASE("a run of this machine's processes is reached by its folder, while it is on") {
  const TinyWorkplace place;
  const std::vector<std::string> look{"status", "--run", place.text_path("run"), "--once", "--json"};
  CommandProcess training(
      place.train("run", {"--stages", "2", "--windows", "4000", "--placement", "processes"}));
  REQUIRE(training.wait_for_error_text("watch it with: zerolock status --run " + place.text_path("run")));
  const auto rights = std::filesystem::status(place.path("run") / "control.json").permissions();
  CHECK(rights == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  REQUIRE(training.wait_for_error_text("window "));
  const CommandOutput seen = run_zerolock(look);
  INFO(seen.err);
  REQUIRE(seen.status == 0);
  const json status = json::parse(seen.out);
  CHECK(status["phase"] == "training");
  CHECK(status["executors"].size() == 2);
  CHECK(status["stages"][1]["executor"] == "stage-0001");
  check_refused({"status", "--run", place.text_path("run"), "--token", "x"}, 2, "--run: says by itself");
  training.signal(SIGINT);
  CHECK(training.finish().status == 130);
  check_refused(look, 2, place.text_path("run") + ": no run with --placement processes is on there");
}

TEST_CASE("with certificates any node of the cluster may look, and nobody else") {
  const TinyWorkplace place;
  const auto make_certificates = [&place](const std::string& folder) {
    REQUIRE(run_zerolock({"certs", "--out", place.text_path(folder), "--hosts", "a=127.0.0.1"}).status == 0);
  };
  make_certificates("certificates");
  make_certificates("others");
  const std::vector<std::string> proof{"--tls", place.text_path("certificates")};
  WaitingCoordinator coordinator(place, proof);
  CHECK(status_of(coordinator.address, proof)["phase"] == "waiting");
  CHECK(status_of(coordinator.address, proof + std::vector<std::string>{"--name", "a"})["phase"] ==
        "waiting");
  const std::vector<std::string> look{"status", "--once", "--coordinator", coordinator.address};
  check_refused(look + std::vector<std::string>{"--tls", place.text_path("others")}, 1, coordinator.address);
  check_refused(look + std::vector<std::string>{"--token", "secret"}, 1, coordinator.address);
  const CommandOutput table = run_zerolock(look + proof);
  INFO(table.out);
  CHECK(table.status == 0);
  CHECK(table.out.find("waiting for 2 executors") != std::string::npos);
  CHECK(table.out.find("stage  layers") != std::string::npos);
  coordinator.process.signal(SIGINT);
  coordinator.process.finish();
}

TEST_CASE("status and metrics say no in one line") {
  const TinyWorkplace place;
  check_refused({"status"}, 2, "--coordinator: is required");
  check_refused({"status", "--coordinator", "here"}, 2, "--coordinator");
  check_refused({"status", "--coordinator", "127.0.0.1:1", "--token", "x"}, 1, "127.0.0.1:1");
  check_refused({"status", "--coordinator", "127.0.0.1:1", "--interval", "0"}, 2, "--interval");
  check_refused({"status", "--coordinator", "127.0.0.1:1", "--once", "--interval", "2"}, 2, "--interval");
  check_refused({"status", "--coordinator", "127.0.0.1:1", "--tls", place.text_path("none")}, 2, "none");
  const auto coordinate = [&place](const std::string& metrics) {
    return WaitingCoordinator::arguments(place,
                                         {"--token", "secret", "--log-level", "warn", "--metrics", metrics});
  };
  check_refused(coordinate("0.0.0.0:0"), 2, "--insecure");
  check_refused(coordinate("127.0.0.1"), 2, "--metrics");
  check_refused(coordinate("127.0.0.1:1:2"), 2, "--metrics");
  const TakenPort taken;
  check_refused(coordinate(taken.text()), 2, "--metrics: cannot listen on " + taken.text());
  CHECK_FALSE(std::filesystem::exists(place.path("run")));
}
