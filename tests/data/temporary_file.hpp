#pragma once
/// A file that exists for one test.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace zerolock {

class TemporaryFile {
 public:
  /// `name` gives the ending; the file lies in a folder of its own.
  TemporaryFile(std::string_view name, std::string_view bytes) {
    static std::atomic<int> count{0};
    folder_ = std::filesystem::temp_directory_path() /
              ("zerolock-data-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / name;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

}  // namespace zerolock
