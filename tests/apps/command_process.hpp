#pragma once
/// Runs the zerolock binary and takes down what it says.

#include <sys/types.h>

#include <string>
#include <vector>

namespace zerolock::testing {

struct CommandOutput {
  int status = -1;  // exit status; 128 + n if signal n ended it
  std::string out;
  std::string err;

  /// Lines of stderr.
  [[nodiscard]] std::vector<std::string> error_lines() const;
};

/// Runs to the end.
CommandOutput run_zerolock(const std::vector<std::string>& arguments);

/// A command under way, whose stderr can be followed.
class CommandProcess {
 public:
  /// `launcher`: a command in front of the binary, as "ip netns exec NAME".
  explicit CommandProcess(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& launcher = {});
  ~CommandProcess();
  CommandProcess(const CommandProcess&) = delete;
  CommandProcess& operator=(const CommandProcess&) = delete;

  /// Reads stderr until a line holds `text`; false if the process ended its stderr first.
  bool wait_for_error_text(const std::string& text);
  /// What stderr has said so far.
  [[nodiscard]] const std::string& error_text() const { return err_; }
  [[nodiscard]] pid_t id() const { return pid_; }
  void signal(int number) const;
  /// Waits for the end.
  CommandOutput finish();

 private:
  pid_t pid_ = -1;
  int error_pipe_ = -1;
  std::string out_file_;
  std::string err_;
};

}  // namespace zerolock::testing
