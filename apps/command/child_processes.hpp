#pragma once
/// Other processes of this program, which end with this one.

#include <sys/types.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace zerolock {

class ChildProcesses {
 public:
  /// `ended` is called, in a thread of the child's own, for each child that ends before finish(): "ended with
  /// status 1", "was ended by signal 9".
  using Ended = std::function<void(const std::string& name, const std::string& end)>;

  explicit ChildProcesses(Ended ended) : ended_(std::move(ended)) {}
  /// Ends those that are left.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts this program's own file with the arguments, in a process group of its own, so that Ctrl-C in the
  /// terminal is for this process alone to handle. Throws RunError if it cannot.
  void start(const std::string& name, const std::vector<std::string>& arguments,
             const std::vector<std::pair<std::string, std::string>>& environment);

  /// Waits until all have ended; those that take longer than 10 s are ended by force.
  void finish();

 private:
  void watch(const std::string& name, pid_t process);

  Ended ended_;
  std::mutex mutex_;
  std::map<std::string, pid_t> running_;  // under mutex_
  bool finishing_ = false;                // the same
  std::vector<std::thread> watchers_;
};

}  // namespace zerolock
