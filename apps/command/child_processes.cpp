#include "apps/command/child_processes.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "actors/core/reconnect_policy.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::chrono::seconds patience{10};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    for (const auto& [name, process] : running_) ::kill(process, SIGKILL);
  }
  finishing_changed_.notify_all();
  for (std::thread& watcher : watchers_) watcher.join();
}

void ChildProcesses::start(const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<std::pair<std::string, std::string>>& environment) {
  Command command{name, {"zerolock"}, {}};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  for (char** variable = environ; *variable != nullptr; ++variable) command.variables.emplace_back(*variable);
  for (const auto& [key, value] : environment) command.variables.push_back(key + "=" + value);
  const std::lock_guard lock(mutex_);
  spawn(command);
  watchers_.emplace_back([this, command] { watch(command); });
}

/// Under mutex_.
void ChildProcesses::spawn(const Command& command) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> variables = command.variables;
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(variables);
  const pid_t process = ::fork();
  if (process < 0) throw RunError("cannot start " + command.name + ": " + std::strerror(errno));
  if (process == 0) {  // only what is safe between fork and exec
    ::setpgid(0, 0);
    ::execve("/proc/self/exe", argv.data(), envp.data());
    ::_exit(127);
  }
  running_[command.name] = process;
}

void ChildProcesses::watch(Command command) {
  ReconnectPolicy pause(std::chrono::milliseconds(20), std::chrono::milliseconds(2000));
  for (;;) {
    const auto end = await_end(command.name);
    if (!end || !ended_(command.name, *end)) return;
    std::unique_lock lock(mutex_);
    if (finishing_changed_.wait_for(lock, pause.failed(), [this] { return finishing_; })) return;
    try {
      spawn(command);
    } catch (const RunError& error) {
      lock.unlock();
      ended_(command.name, error.what());
      return;
    }
  }
}

/// How the process ended; none if it was to.
std::optional<std::string> ChildProcesses::await_end(const std::string& name) {
  pid_t process = 0;
  {
    const std::lock_guard lock(mutex_);
    process = running_.at(name);
  }
  // Leaves it as it is until the map has forgotten it: its number is not given to anybody else before.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
    continue;
  const std::lock_guard lock(mutex_);
  running_.erase(name);
  int status = 0;
  ::waitpid(process, &status, 0);
  return finishing_ ? std::nullopt : std::optional(describe(status));
}

void ChildProcesses::finish() {
  std::condition_variable over;
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  finishing_changed_.notify_all();
  std::mutex waiting;
  bool all_gone = false;
  std::thread impatience([this, &over, &waiting, &all_gone] {
    std::unique_lock lock(waiting);
    if (over.wait_for(lock, patience, [&all_gone] { return all_gone; })) return;
    const std::lock_guard running(mutex_);
    for (const auto& [name, process] : running_) ::kill(process, SIGKILL);
  });
  for (std::thread& watcher : watchers_) watcher.join();
  watchers_.clear();
  {
    const std::lock_guard lock(waiting);
    all_gone = true;
  }
  over.notify_one();
  impatience.join();
}

}  // namespace zerolock
