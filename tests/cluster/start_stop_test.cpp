// What clusters leave behind that were started and stopped: nothing.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "loopback_cluster.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

/// How many cycles: 5, or as many as ZEROLOCK_TEST_CYCLES says.
int cycles() {
  const char* given = std::getenv("ZEROLOCK_TEST_CYCLES");
  return given == nullptr ? 5 : std::stoi(given);
}

/// All files and folders below a folder.
std::set<std::string> files_below(const std::filesystem::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    files.insert(entry.path().string());
  }
  return files;
}

/// Ids of the processes whose command line names the folder, but for this one.
std::set<pid_t> processes_naming(const std::string& folder) {
  std::set<pid_t> processes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream command(entry.path() / "cmdline", std::ios::binary);
    const std::string words((std::istreambuf_iterator<char>(command)), {});
    if (words.find(folder) != std::string::npos && std::stoi(name) != ::getpid()) {
      processes.insert(std::stoi(name));
    }
  }
  return processes;
}

/// Local addresses on which sockets listen, by the socket's inode.
std::map<std::string, std::string> listening_sockets() {
  std::map<std::string, std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      // "sl local remote state queues timer retransmits uid timeout inode ..."
      std::istringstream stream(line);
      const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
      if (words.size() > 9 && words[3] == "0A") sockets[words[9]] = words[1];
    }
  }
  return sockets;
}

/// Those of a process.
std::set<std::string> listening_of(pid_t process) {
  const auto sockets = listening_sockets();
  std::set<std::string> addresses;
  for (const auto& file : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file, gone).string();
    if (target.rfind("socket:[", 0) != 0) continue;
    const auto found = sockets.find(target.substr(8, target.size() - 9));
    if (found != sockets.end()) addresses.insert(found->second);
  }
  return addresses;
}

/// A variable of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// One start and stop; returns the addresses on which any of the processes listened.
class Cycle {
 public:
  Cycle(const TinyWorkplace& place, bool stopped) : place_(place), stopped_(stopped) {}

  std::set<std::string> with_placement() const {
    CommandProcess training(
        place_.train("run", flags() + std::vector<std::string>{"--placement", "processes", "--stages", "3"}));
    std::set<std::string> listened;
    REQUIRE(training.wait_for_error_text("info: window "));
    for (const pid_t process : processes_naming(place_.text_path("run")))
      listened.merge(listening_of(process));
    end(training);
    return listened;
  }

  std::set<std::string> with_coordinator() const {
    LoopbackCluster cluster(
        place_, coordinator_arguments(place_, "run", flags() + std::vector<std::string>{"--stages", "2"}),
        {"--token", "secret"});
    std::vector<CommandProcess*> executors{&cluster.join("a"), &cluster.join("b")};
    std::set<std::string> listened;
    REQUIRE(cluster.coordinator().wait_for_error_text("info: window "));
    for (const pid_t process : cluster.processes()) listened.merge(listening_of(process));
    end(cluster.coordinator());
    for (CommandProcess* executor : executors) CHECK(executor->finish().status == 0);
    return listened;
  }

 private:
  [[nodiscard]] std::vector<std::string> flags() const { return {"--windows", stopped_ ? "1000" : "20"}; }

  void end(CommandProcess& process) const {
    if (stopped_) process.signal(SIGINT);
    const CommandOutput output = process.finish();
    INFO(output.err);
    CHECK(output.status == (stopped_ ? 130 : 0));
  }

  const TinyWorkplace& place_;
  bool stopped_;
};

}  // namespace

TEST_CASE("clusters of three processes come and go and leave no process, port, or file") {
  const TinyWorkplace place;
  for (const char* folder : {"tmp", "home"}) std::filesystem::create_directory(place.path(folder));
  const Variable temporary("TMPDIR", place.text_path("tmp"));
  const Variable home("HOME", place.text_path("home"));
  std::set<std::string> files;
  for (int cycle = 0; cycle < cycles(); ++cycle) {
    INFO("cycle " << cycle);
    const Cycle now(place, cycle % 4 >= 2);
    const std::set<std::string> listened = cycle % 2 == 0 ? now.with_placement() : now.with_coordinator();
    // The coordinator and, unless it has the last stage, each executor.
    CHECK(listened.size() >= 3);
    CHECK(processes_naming(place.text_path("")).empty());
    for (const auto& [inode, address] : listening_sockets()) {
      INFO(address);
      CHECK(listened.count(address) == 0);
    }
    CHECK_FALSE(std::filesystem::exists(place.path("run") / "executors"));
    for (const std::string& file : files_below(place.path("run"))) {
      INFO(file);
      CHECK(file.find(".partial") == std::string::npos);
    }
    std::filesystem::remove_all(place.path("run"));
    // Weights stay in the executors' caches; they are there after each kind has run once.
    if (cycle < 2) {
      files = files_below(place.path(""));
    } else {
      CHECK(files_below(place.path("")) == files);
    }
    CHECK(files_below(place.path("tmp")).empty());
    CHECK(files_below(place.path("home")).empty());
  }
}
