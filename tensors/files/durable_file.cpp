#include "tensors/files/durable_file.hpp"

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

}  // namespace

void write_file_durably(const std::filesystem::path& file, std::string_view bytes) {
  std::filesystem::path temporary = file;
  temporary += ".partial";
  try {
    write_all(temporary, bytes);
    if (::rename(temporary.c_str(), file.c_str()) != 0) fail(file, "cannot be renamed to");
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const Descriptor folder(parent, O_RDONLY | O_DIRECTORY);
  if (folder.number() < 0 || ::fsync(folder.number()) != 0) fail(parent, "cannot be brought to disk");
}

}  // namespace zerolock
