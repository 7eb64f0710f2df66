#include "loopback_cluster.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

namespace zerolock::testing {

using nlohmann::json;

LoopbackCluster::LoopbackCluster(const TinyWorkplace& place, std::vector<std::string> coordinator,
                                 std::vector<std::string> proof, const std::string& host)
    : place_(place), proof_(std::move(proof)) {
  const std::vector<std::string> listen{"--listen", host + ":0"};
  coordinator_ = std::make_unique<CommandProcess>(coordinator + listen + proof_);
  const bool listens = coordinator_->wait_for_error_text("waiting at ");
  INFO(coordinator_->error_text());
  REQUIRE(listens);
  const std::string& said = coordinator_->error_text();
  const std::size_t begin = said.find("waiting at ") + std::string("waiting at ").size();
  address_ = said.substr(begin, said.find(' ', begin) - begin);
}

CommandProcess& LoopbackCluster::join(const std::string& name, const std::vector<std::string>& more) {
  const std::vector<std::string> executor{
      "executor", "--join", address_, "--name", name, "--cache", place_.text_path("cache-" + name)};
  executors_.push_back(std::make_unique<CommandProcess>(executor + proof_ + more));
  names_.push_back(name);
  return *executors_.back();
}

void LoopbackCluster::kill(const std::string& executor) {
  end(executor, SIGKILL, 128 + SIGKILL);
}

void LoopbackCluster::interrupt(const std::string& executor) {
  end(executor, SIGINT, 130);
}

void LoopbackCluster::end(const std::string& executor, int signal, int status) {
  const auto name = std::find(names_.begin(), names_.end(), executor);
  REQUIRE(name != names_.end());
  const auto process = executors_.begin() + (name - names_.begin());
  (*process)->signal(signal);
  CHECK((*process)->finish().status == status);
  executors_.erase(process);
  names_.erase(name);
}

void LoopbackCluster::kill_coordinator() {
  coordinator_->signal(SIGKILL);
  CHECK(coordinator_->finish().status == 128 + SIGKILL);
}

void LoopbackCluster::resume_coordinator(const std::string& run) {
  const std::vector<std::string> resume{"coordinator", "--resume", run, "--json", "--listen", address_};
  coordinator_ = std::make_unique<CommandProcess>(resume + proof_);
}

json LoopbackCluster::status() const {
  const std::vector<std::string> look{"status", "--coordinator", address_, "--once", "--json"};
  return summary_of(run_zerolock(look + proof_));
}

std::vector<pid_t> LoopbackCluster::processes() const {
  std::vector<pid_t> ids{coordinator_->id()};
  for (const auto& executor : executors_) ids.push_back(executor->id());
  return ids;
}

json LoopbackCluster::finish() {
  const json summary = summary_of(coordinator_->finish());  // else executors wait for another coordinator
  for (auto& executor : executors_) {
    const CommandOutput end = executor->finish();
    INFO(end.err);
    CHECK(end.status == 0);
  }
  return summary;
}

std::vector<std::string> coordinator_arguments(const TinyWorkplace& place, const std::string& out,
                                               const std::vector<std::string>& more) {
  std::vector<std::string> job = place.train(out, std::vector<std::string>{"--json"} + more);
  job.front() = "coordinator";
  return job;
}

json summary_of(const CommandOutput& output) {
  INFO(output.err);
  REQUIRE(output.status == 0);
  return json::parse(output.out);
}

void check_refused(const CommandOutput& output, int status, const std::string& text) {
  INFO(output.err);
  CHECK(output.status == status);
  CHECK(output.error_lines().size() == 1);
  CHECK(output.err.find(text) != std::string::npos);
  CHECK(output.out.empty());
}

std::uint64_t process_bytes(pid_t process) {
  std::ifstream rollup("/proc/" + std::to_string(process) + "/smaps_rollup");
  std::string word;
  std::uint64_t kibibytes = 0;
  while (rollup >> word) {
    if (word == "Pss:" && rollup >> kibibytes) return kibibytes * 1024;
  }
  FAIL("no process " << process);
  return 0;
}

}  // namespace zerolock::testing
