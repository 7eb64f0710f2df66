#include "actors/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw RunError(std::string("cannot ") + what + " " + path.string() + ": " +
                 std::generic_category().message(error));
}

class FileDescriptor {
 public:
  FileDescriptor(const fs::path& path, int flags)
      : path_(path), value_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (value_ < 0) fail("open", path_, errno);
  }
  ~FileDescriptor() { ::close(value_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ::ssize_t written = ::write(value_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() {
    if (::fsync(value_) != 0) fail("sync", path_, errno);
  }

 private:
  fs::path path_;
  int value_;
};

void sync_folder(const fs::path& folder) {
  FileDescriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace

void write_durable_file(const fs::path& file, std::string_view bytes,
                        const std::function<void(DurableWrite)>& done) {
  const fs::path temporary = file.string() + ".tmp";
  {
    FileDescriptor descriptor(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    descriptor.write(bytes);
    descriptor.sync();
  }
  done(DurableWrite::temporary_synced);
  std::error_code error;
  fs::rename(temporary, file, error);
  if (error) fail("rename", temporary, error.value());
  done(DurableWrite::renamed);
  sync_folder(file.parent_path());
}

void make_durable_folder(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  make_durable_folder(folder.parent_path());
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) fail("create", folder, error.value());
  sync_folder(folder.parent_path());
}

}  // namespace zerolock
