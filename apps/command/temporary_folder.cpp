#include "apps/command/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "apps/command/leftovers.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "zerolock-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw RunError(pattern + ": no temporary folder can be made: " + std::strerror(errno));
  }
  path_ = pattern;
  note_leftover(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  forget_leftover(path_);
}

}  // namespace zerolock
