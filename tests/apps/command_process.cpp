#include "command_process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace zerolock::testing {

std::vector<std::string> CommandOutput::error_lines() const {
  std::vector<std::string> lines;
  std::istringstream stream(err);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

CommandProcess::CommandProcess(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& launcher) {
  char out_file[] = "/tmp/zerolock-test-out-XXXXXX";
  const int out = ::mkstemp(out_file);
  out_file_ = out_file;
  int ends[2];
  if (out < 0 || ::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> words;
  for (const std::string& word : launcher) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(const_cast<char*>(ZEROLOCK_BINARY));
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out, STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::execvp(words.front(), words.data());
    ::_exit(127);
  }
  ::close(out);
  ::close(ends[1]);
  error_pipe_ = ends[0];
}

CommandProcess::~CommandProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (error_pipe_ >= 0) ::close(error_pipe_);
  ::unlink(out_file_.c_str());
}

bool CommandProcess::wait_for_error_text(const std::string& text) {
  char buffer[4096];
  while (err_.find(text) == std::string::npos) {
    const ssize_t count = ::read(error_pipe_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    err_.append(buffer, static_cast<std::size_t>(count));
  }
  return true;
}

void CommandProcess::signal(int number) const {
  ::kill(pid_, number);
}

CommandOutput CommandProcess::finish() {
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(error_pipe_, buffer, sizeof buffer)) != 0;) {
    if (count < 0 && errno != EINTR) break;
    if (count > 0) err_.append(buffer, static_cast<std::size_t>(count));
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  std::ifstream stream(out_file_, std::ios::binary);
  std::ostringstream out;
  out << stream.rdbuf();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out.str(), err_};
}

CommandOutput run_zerolock(const std::vector<std::string>& arguments) {
  return CommandProcess(arguments).finish();
}

}  // namespace zerolock::testing
