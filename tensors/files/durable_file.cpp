#include "tensors/files/durable_file.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "tensors/base/error.hpp"
#include "tensors/files/descriptor.hpp"

namespace zerolock {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw RunError(file.string() + ": " + what + ": " +
                 std::error_code(errno, std::generic_category()).message());
}

void write_all(const std::filesystem::path& file, std::string_view bytes) {
  const Descriptor out(file, O_WRONLY | O_CREAT | O_TRUNC);
  if (out.number() < 0) fail(file, "cannot be created");
  while (!bytes.empty()) {
    const ssize_t written = ::write(out.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(file, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(out.number()) != 0) fail(file, "cannot be brought to disk");
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (opened.number() < 0 || ::fsync(opened.number()) != 0) fail(folder, "cannot be brought to disk");
}

}  // namespace

void write_file_durably(const std::filesystem::path& file, std::string_view bytes,
                        const std::function<void(DurableWrite)>& reached) {
  std::filesystem::path temporary = file;
  temporary += ".partial";
  try {
    write_all(temporary, bytes);
    if (reached) reached(DurableWrite::temporary_synced);
    if (::rename(temporary.c_str(), file.c_str()) != 0) fail(file, "cannot be renamed to");
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  if (reached) reached(DurableWrite::renamed);
  sync_folder(file.parent_path());
}

void make_folder_durably(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::is_directory(folder)) return;
  make_folder_durably(folder.parent_path());
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail(folder, "cannot be created");
  sync_folder(folder.parent_path());
}

}  // namespace zerolock
