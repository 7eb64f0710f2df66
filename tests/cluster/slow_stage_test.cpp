// A last stage that is fifty times slower than the others, each stage a process.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "loopback_cluster.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

/// The processes that a process has started, by the value of their --name.
std::map<std::string, pid_t> executors_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::map<std::string, pid_t> executors;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + id + "/task")) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      std::ifstream command("/proc/" + std::to_string(child) + "/cmdline");
      for (std::string word; std::getline(command, word, '\0');) {
        if (word == "--name" && std::getline(command, word, '\0')) executors[word] = child;
      }
    }
  }
  return executors;
}

/// Lets a process run for one millisecond in fifty.
class SlowedProcess {
 public:
  explicit SlowedProcess(pid_t process)
      : thread_([process](const std::stop_token& over) {
          while (!over.stop_requested()) {
            ::kill(process, SIGSTOP);
            std::this_thread::sleep_for(std::chrono::milliseconds(49));
            ::kill(process, SIGCONT);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

TEST_CASE("while the last stage is fifty times slower no process grows, and nothing is lost") {
  const TinyWorkplace place;
  // 600 micro-batches; window 18 ends with the 108th, window 84 with the 504th.
  const auto job = [&place](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = place.train(
        out,
        std::vector<std::string>{"--stages", "3", "--windows", "100", "--accumulate", "6", "--json"} + more);
    *std::next(std::find(arguments.begin(), arguments.end(), "--batch")) = "16";
    return arguments;
  };
  const json threads = summary_of(run_zerolock(job("threads", {})));
  CommandProcess training(job("run", {"--placement", "processes", "--log-level", "debug"}));
  REQUIRE(training.wait_for_error_text("executor stage-0002 has joined"));
  REQUIRE(training.wait_for_error_text("info: window 2"));
  std::map<std::string, pid_t> processes = executors_of(training.id());
  REQUIRE(processes.size() == 3);
  const SlowedProcess slowed(processes.at("stage-0002"));
  processes["coordinator"] = training.id();
  const auto sizes = [&processes] {
    std::map<std::string, std::uint64_t> bytes;
    for (const auto& [name, id] : processes) bytes[name] = process_bytes(id);
    return bytes;
  };
  REQUIRE(training.wait_for_error_text("info: window 18/"));
  const auto before = sizes();
  REQUIRE(training.wait_for_error_text("info: window 84/"));
  const auto after = sizes();
  for (const auto& [name, bytes] : before) {
    INFO(name << " had " << bytes << " bytes and has " << after.at(name));
    CHECK(after.at(name) < bytes + (std::uint64_t{4} << 20));
  }
  const CommandOutput output = training.finish();
  const json processes_run = summary_of(output);
  CHECK(processes_run["adapter_sha256"] == threads["adapter_sha256"]);
  for (const json& stage : processes_run["stages"]) {
    CHECK(stage["restarts"] == 0);
    CHECK(stage["incarnation"] == 1);
  }
  for (const char* trouble : {"again", "lost", "warn", "error", "silent", "nothing was heard"}) {
    INFO(trouble << " in " << output.err);
    CHECK(output.err.find(trouble) == std::string::npos);
  }
}
