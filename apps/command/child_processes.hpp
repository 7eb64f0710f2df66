#pragma once
/// Other processes of this program, which end with this one.

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace zerolock {

class ChildProcesses {
 public:
  /// Called, in a thread of the child's own, for each child that ends before finish(): "ended with status 1",
  /// "was ended by signal 9". Returns whether to start it again.
  using Ended = std::function<bool(const std::string& name, const std::string& end)>;

  explicit ChildProcesses(Ended ended) : ended_(std::move(ended)) {}
  /// Ends those that are left.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts this program's own file with the arguments, in a process group of its own, so that Ctrl-C in the
  /// terminal is for this process alone to handle. One that is started again and again waits longer each
  /// time. Throws RunError if it cannot.
  void start(const std::string& name, const std::vector<std::string>& arguments,
             const std::vector<std::pair<std::string, std::string>>& environment);

  /// Waits until all have ended; those that take longer than 10 s are ended by force.
  void finish();

 private:
  struct Command {
    std::string name;
    std::vector<std::string> arguments;
    std::vector<std::string> variables;
  };
  void spawn(const Command& command);
  void watch(Command command);
  std::optional<std::string> await_end(const std::string& name);

  Ended ended_;
  std::mutex mutex_;
  std::condition_variable finishing_changed_;
  std::map<std::string, pid_t> running_;  // under mutex_
  bool finishing_ = false;                // the same
  std::vector<std::thread> watchers_;
};

}  // namespace zerolock
