#include "apps/command/unfinished_folder.hpp"

#include <unistd.h>

#include <string>
#include <system_error>

#include "apps/command/leftovers.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace fs = std::filesystem;

UnfinishedFolder::UnfinishedFolder(const fs::path& target)
    : path_(target.string() + ".unfinished-" + std::to_string(::getpid())) {
  note_leftover(path_);
  std::error_code error;
  fs::remove_all(path_, error);  // of an earlier process with this number
  fs::create_directories(path_, error);
  if (!error) return;
  forget_leftover(path_);
  throw InputError(path_.string(), "cannot be made: " + error.message());
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  forget_leftover(path_);
}

void UnfinishedFolder::rename_to(const fs::path& target, Existing existing) const {
  std::error_code error;
  fs::rename(path_, target, error);
  if (!error) return;
  std::error_code ignored;
  if (existing == Existing::stays && fs::is_directory(target, ignored)) return;
  throw RunError(target.string() + ": cannot be made: " + error.message());
}

}  // namespace zerolock
