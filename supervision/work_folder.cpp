#include "supervision/work_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

std::filesystem::path lock_file(const std::filesystem::path& work) {
  return work / "lock";
}

/// Whether the descriptor's file is still the one of that name: whoever had it before removes it.
bool is_in_place(int descriptor, const std::filesystem::path& file) {
  struct stat held {};
  struct stat named {};
  return ::fstat(descriptor, &held) == 0 && ::stat(file.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/// The lock file, open and locked.
int take_lock(const std::filesystem::path& work) {
  const std::filesystem::path file = lock_file(work);
  while (true) {
    std::error_code error;
    std::filesystem::create_directories(work, error);
    if (error) throw InputError(work.string(), "cannot be made a work folder: " + error.message());
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      if (errno == ENOENT) continue;  // the folder went with the one who had it
      throw InputError(file.string(), "cannot be opened: " + std::generic_category().message(errno));
    }
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      ::close(descriptor);
      if (reason == EINTR) continue;
      if (reason == EWOULDBLOCK) {
        throw InputError(work.string(),
                         "another executor works in this folder; give each one its own --work or --name");
      }
      throw InputError(file.string(), "cannot be locked: " + std::generic_category().message(reason));
    }
    if (is_in_place(descriptor, file)) return descriptor;
    ::close(descriptor);
  }
}

}  // namespace

WorkFolder::WorkFolder(std::filesystem::path path) : path_(std::move(path)), lock_(take_lock(path_)) {
  clear();
}

WorkFolder::~WorkFolder() {
  clear();
  std::error_code ignored;
  std::filesystem::remove(lock_file(path_), ignored);
  std::filesystem::remove(path_, ignored);  // unless something else lies in it
  ::close(lock_);
}

void WorkFolder::clear() const {
  std::error_code ignored;
  std::filesystem::remove_all(path_ / "checkpoints", ignored);
  std::filesystem::remove_all(path_ / "initial", ignored);
}

}  // namespace zerolock
