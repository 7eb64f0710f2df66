#include "tensors/files/file_operations.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

/// Read by every thread that touches a durable file, and empty but for tests and injected faults.
std::atomic<std::shared_ptr<const FileFaults>> faults_in_force;

/// False, and errno, if the operation is to fail. `bytes` is cut to what it may do.
bool may(FileOperation operation, const std::filesystem::path& file, std::size_t* bytes = nullptr) {
  const std::shared_ptr<const FileFaults> faults = faults_in_force.load();
  if (!faults) return true;
  const FileVerdict verdict = (*faults)(operation, file);
  if (verdict.error != 0) {
    errno = verdict.error;
    return false;
  }
  if (bytes != nullptr) *bytes = std::min(*bytes, std::max<std::size_t>(verdict.bytes_max, 1));
  return true;
}

template <class Call>
auto repeated(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

std::string_view to_string(FileOperation operation) {
  switch (operation) {
    case FileOperation::open:
      return "open";
    case FileOperation::read:
      return "read";
    case FileOperation::write:
      return "write";
    case FileOperation::sync:
      return "sync";
    case FileOperation::rename:
      return "rename";
    case FileOperation::make_folder:
      return "make-folder";
    case FileOperation::remove:
      return "remove";
  }
  return "unknown";
}

FileFaultScope::FileFaultScope(FileFaults faults) {
  ZEROLOCK_INVARIANT(!faults_in_force.load(), "file faults are in force once");
  faults_in_force.store(std::make_shared<const FileFaults>(std::move(faults)));
}

FileFaultScope::~FileFaultScope() {
  faults_in_force.store(nullptr);
}

int open_file(const std::filesystem::path& file, int flags) {
  if (!may(FileOperation::open, file)) return -1;
  return repeated([&] { return ::open(file.c_str(), flags | O_CLOEXEC, 0666); });
}

ssize_t read_some(int descriptor, const std::filesystem::path& file, std::span<char> bytes) {
  std::size_t count = bytes.size();
  if (!may(FileOperation::read, file, &count)) return -1;
  return repeated([&] { return ::read(descriptor, bytes.data(), count); });
}

ssize_t write_some(int descriptor, const std::filesystem::path& file, std::string_view bytes) {
  std::size_t count = bytes.size();
  if (!may(FileOperation::write, file, &count)) return -1;
  return repeated([&] { return ::write(descriptor, bytes.data(), count); });
}

int sync_descriptor(int descriptor, const std::filesystem::path& file) {
  if (!may(FileOperation::sync, file)) return -1;
  return repeated([&] { return ::fsync(descriptor); });
}

int rename_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (!may(FileOperation::rename, to)) return -1;
  return ::rename(from.c_str(), to.c_str());
}

int make_one_folder(const std::filesystem::path& folder) {
  if (!may(FileOperation::make_folder, folder)) return -1;
  return ::mkdir(folder.c_str(), 0777);
}

int remove_one(const std::filesystem::path& file) {
  if (!may(FileOperation::remove, file)) return -1;
  return std::remove(file.c_str());
}

}  // namespace zerolock
