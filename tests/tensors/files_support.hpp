#pragma once
/// What the tests of files share: a folder that vanishes with the test, and bytes to break.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace zerolock::test {

/// A fresh folder under the system's temporary one, removed at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("zerolock-files-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// The bytes of a number as it lies in memory (little-endian).
template <class Number>
std::string raw(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The given file of tests/fixtures.
inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / name;
}

}  // namespace zerolock::test
