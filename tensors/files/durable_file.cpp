#include "tensors/files/durable_file.hpp"

#include <cerrno>
#include <string>
#include <system_error>

#include "tensors/base/error.hpp"
#include "tensors/files/descriptor.hpp"
#include "tensors/files/file_operations.hpp"

namespace zerolock {
namespace {

std::string reason() {
  return std::error_code(errno, std::generic_category()).message();
}

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw RunError(file.string() + ": " + what + ": " + reason());
}

void write_all(const std::filesystem::path& file, std::string_view bytes) {
  const Descriptor out(open_file(file, O_WRONLY | O_CREAT | O_TRUNC));
  if (out.number() < 0) fail(file, "cannot be created");
  while (!bytes.empty()) {
    const ssize_t written = write_some(out.number(), file, bytes);
    if (written < 0) fail(file, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (sync_descriptor(out.number(), file) != 0) fail(file, "cannot be brought to disk");
}

}  // namespace

void write_file_durably(const std::filesystem::path& file, std::string_view bytes,
                        const std::function<void(DurableWrite)>& reached) {
  std::filesystem::path temporary = file;
  temporary += ".partial";
  try {
    write_all(temporary, bytes);
    if (reached) reached(DurableWrite::temporary_synced);
    if (rename_file(temporary, file) != 0) fail(file, "cannot be renamed to");
  } catch (...) {
    remove_one(temporary);  // if that fails too, the next write begins the temporary file anew
    throw;
  }
  if (reached) reached(DurableWrite::renamed);
  sync_folder(file.parent_path());
}

void make_folder_durably(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::is_directory(folder)) return;
  make_folder_durably(folder.parent_path());
  if (make_one_folder(folder) != 0) {
    if (errno != EEXIST) fail(folder, "cannot be created");
    return;  // somebody else makes it, and brings it to disk
  }
  try {
    sync_folder(folder.parent_path());
  } catch (const RunError&) {
    remove_one(folder);
    throw;
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path named = folder.empty() ? "." : folder;
  const Descriptor opened(open_file(named, O_RDONLY | O_DIRECTORY));
  if (opened.number() < 0 || sync_descriptor(opened.number(), named) != 0) {
    fail(named, "cannot be brought to disk");
  }
}

void remove_durable(const std::filesystem::path& file) {
  if (remove_one(file) != 0 && errno != ENOENT) fail(file, "cannot be removed");
}

std::string read_file(const std::filesystem::path& file, std::uint64_t bytes_max) {
  const auto refuse = [&file] { throw InputError(file.string(), "cannot be read: " + reason()); };
  const Descriptor in(open_file(file, O_RDONLY));
  if (in.number() < 0) refuse();
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error);
  if (error) throw InputError(file.string(), "cannot be read: " + error.message());
  if (size > bytes_max) {
    throw InputError(file.string(),
                     "has " + std::to_string(size) + " bytes; allowed here are " + std::to_string(bytes_max));
  }
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count = read_some(in.number(), file, {bytes.data() + have, bytes.size() - have});
    if (count < 0) refuse();
    if (count == 0) break;  // it has become shorter meanwhile
    have += static_cast<std::size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace zerolock
