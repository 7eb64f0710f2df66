#include "apps/command/child_processes.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>

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
  for (std::thread& watcher : watchers_) watcher.join();
}

void ChildProcesses::start(const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> words{"zerolock"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [key, value] : environment) variables.push_back(key + "=" + value);
  std::vector<char*> argv = pointers(words);
  std::vector<char*> envp = pointers(variables);
  const pid_t process = ::fork();
  if (process < 0) throw RunError("cannot start " + name + ": " + std::strerror(errno));
  if (process == 0) {  // only what is safe between fork and exec
    ::setpgid(0, 0);
    ::execve("/proc/self/exe", argv.data(), envp.data());
    ::_exit(127);
  }
  const std::lock_guard lock(mutex_);
  running_[name] = process;
  watchers_.emplace_back([this, name, process] { watch(name, process); });
}

void ChildProcesses::watch(const std::string& name, pid_t process) {
  // Leaves it as it is until the map has forgotten it: its number is not given to anybody else before.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
    continue;
  bool expected = false;
  int status = 0;
  {
    const std::lock_guard lock(mutex_);
    running_.erase(name);
    expected = finishing_;
    ::waitpid(process, &status, 0);
  }
  if (!expected) ended_(name, describe(status));
}

void ChildProcesses::finish() {
  std::condition_variable over;
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
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
