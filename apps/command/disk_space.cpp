#include "apps/command/disk_space.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <system_error>

#include "tensors/base/error.hpp"

namespace zerolock {

std::filesystem::path existing_parent(std::filesystem::path path) {
  path = std::filesystem::absolute(path);
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

void require_disk_space(const std::filesystem::path& path, std::uint64_t bytes, const std::string& where,
                        const std::string& advice) {
  struct statvfs space {};
  if (::statvfs(existing_parent(path).c_str(), &space) != 0 || space.f_blocks == 0) return;
  const std::uint64_t free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  if (free_bytes >= bytes) return;
  throw InputError(where, "the disk is full: " + std::to_string(free_bytes) + " bytes free, " +
                              std::to_string(bytes) + " needed; " + advice);
}

void require_room_for_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                             const std::string& where, const std::string& advice) {
  const std::filesystem::path parent = existing_parent(folder);
  std::error_code error;
  if (!std::filesystem::is_directory(parent, error)) {
    throw InputError(where, parent.string() + " is not a folder");
  }
  if (::access(parent.c_str(), W_OK | X_OK) != 0) throw InputError(where, "cannot be written to");
  require_disk_space(folder, bytes, where, advice);
}

}  // namespace zerolock
