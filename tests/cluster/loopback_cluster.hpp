#pragma once
/// A coordinator and executors on this machine, each a process of the real binary.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_process.hpp"
#include "tiny_model.hpp"

namespace zerolock::testing {

class LoopbackCluster {
 public:
  /// Starts `coordinator FLAGS` (every word but --listen) and waits until it listens at that host. `proof`:
  /// the
  /// --tls or --token of all processes.
  LoopbackCluster(const TinyWorkplace& place, std::vector<std::string> coordinator,
                  std::vector<std::string> proof, const std::string& host = "127.0.0.1");

  /// Where the coordinator listens, "HOST:PORT".
  [[nodiscard]] const std::string& address() const { return address_; }
  CommandProcess& coordinator() { return *coordinator_; }
  /// Starts an executor of that name, which has no model.
  CommandProcess& join(const std::string& name, const std::vector<std::string>& more = {});
  [[nodiscard]] const std::vector<std::unique_ptr<CommandProcess>>& executors() const { return executors_; }
  /// SIGKILL, or Ctrl-C; waits for the end of that process, which is then forgotten.
  void kill(const std::string& executor);
  void interrupt(const std::string& executor);
  void kill_coordinator();
  /// Starts `coordinator --resume RUN` where the one before has listened.
  void resume_coordinator(const std::string& run);
  /// `zerolock status --once --json`.
  [[nodiscard]] nlohmann::json status() const;
  /// Ids of all processes, the coordinator's first.
  [[nodiscard]] std::vector<pid_t> processes() const;

  /// Waits for the end of the run. Fails the test unless the coordinator and all executors end well. Returns
  /// the summary.
  nlohmann::json finish();

 private:
  void end(const std::string& executor, int signal, int status);

  const TinyWorkplace& place_;
  std::vector<std::string> proof_;
  std::string address_;
  std::unique_ptr<CommandProcess> coordinator_;
  std::vector<std::unique_ptr<CommandProcess>> executors_;
  std::vector<std::string> names_;  // of the executors, in their order
};

/// The arguments of `train` as the coordinator's, with its summary as JSON.
std::vector<std::string> coordinator_arguments(const TinyWorkplace& place, const std::string& out,
                                               const std::vector<std::string>& more = {});
/// The summary of a command that has to end well.
nlohmann::json summary_of(const CommandOutput& output);
/// Fails the test unless that is the status and stderr is one line that holds `text`.
void check_refused(const CommandOutput& output, int status, const std::string& text);

/// Proportional set size of a process in bytes.
std::uint64_t process_bytes(pid_t process);

}  // namespace zerolock::testing
