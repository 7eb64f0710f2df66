#pragma once
/// A file that exists for one test.

#include <filesystem>
#include <string_view>

#include "tests/temporary_folder.hpp"

namespace zerolock {

class TemporaryFile {
 public:
  /// `name` gives the ending; the file lies in a folder of its own.
  TemporaryFile(std::string_view name, std::string_view bytes) : path_(folder_.write(name, bytes)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  test::TemporaryFolder folder_;
  std::filesystem::path path_;
};

}  // namespace zerolock
