#pragma once
/// The folder in which an executor keeps what it needs for one run.

#include <filesystem>

namespace zerolock {

/// Holds the folder for one executor: while it lives, another one that wants the same folder is refused. Its
/// checkpoints and the states that stages began with ("checkpoints", "initial") are removed at the beginning,
/// in case an earlier executor was killed, and at the end.
class WorkFolder {
 public:
  /// Makes the folder if it is not there. Throws InputError that begins with the path if another process has
  /// it or it cannot be written to.
  explicit WorkFolder(std::filesystem::path path);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

 private:
  void clear() const;

  std::filesystem::path path_;
  int lock_ = -1;  // descriptor of the lock file
};

}  // namespace zerolock
