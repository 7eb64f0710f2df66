#pragma once
/// The operating system's file operations that durable files are made of, each of which can be made to fail.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

namespace zerolock {

enum class FileOperation : std::uint8_t { open, read, write, sync, rename, make_folder, remove };
std::string_view to_string(FileOperation operation);

/// What becomes of one operation.
struct FileVerdict {
  int error = 0;  // an errno: nothing is done, and the operation fails with it; 0: it is carried out
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max();  // that a read or write does; at least 1
};

/// Asked before every operation, by the thread that wants it. A rename is asked for its target.
using FileFaults = std::function<FileVerdict(FileOperation, const std::filesystem::path&)>;

/// Lets this process's file operations meet faults while it lives. Of several, the first that does not let an
/// operation pass decides.
class FileFaultScope {
 public:
  explicit FileFaultScope(FileFaults faults);
  ~FileFaultScope();
  FileFaultScope(const FileFaultScope&) = delete;
  FileFaultScope& operator=(const FileFaultScope&) = delete;

 private:
  std::shared_ptr<const FileFaults> faults_;
};

/// As the system calls do: a negative result and errno, or what was asked for. Files are opened close-on-exec
/// with mode 0666; a call that a signal interrupts is made again.
int open_file(const std::filesystem::path& file, int flags);
ssize_t read_some(int descriptor, const std::filesystem::path& file, std::span<char> bytes);
ssize_t write_some(int descriptor, const std::filesystem::path& file, std::string_view bytes);
int sync_descriptor(int descriptor, const std::filesystem::path& file);
int rename_file(const std::filesystem::path& from, const std::filesystem::path& to);
int make_one_folder(const std::filesystem::path& folder);
/// A file, or an empty folder.
int remove_one(const std::filesystem::path& file);

}  // namespace zerolock
