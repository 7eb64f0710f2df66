#pragma once
/// A folder that goes away with its owner.

#include <filesystem>

namespace zerolock {

class TemporaryFolder {
 public:
  /// Under the system's folder for temporary files. Throws RunError if it cannot be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace zerolock
