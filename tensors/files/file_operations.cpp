#include "tensors/files/file_operations.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

namespace zerolock {
namespace {

using FaultList = std::vector<std::shared_ptr<const FileFaults>>;

/// Read by every thread that touches a durable file, and null but for tests and injected faults.
std::atomic<std::shared_ptr<const FaultList>> faults_in_force;
std::mutex changing_faults;

FileVerdict verdict_on(FileOperation operation, const std::filesystem::path& file) {
  const std::shared_ptr<const FaultList> list = faults_in_force.load();
  if (!list) return {};
  for (const auto& faults : *list) {
    const FileVerdict verdict = (*faults)(operation, file);
    if (verdict.error != 0 || verdict.bytes_max != FileVerdict{}.bytes_max) return verdict;
  }
  return {};
}

/// False, and errno, if the operation is to fail. `bytes` is cut to what it may do.
bool may(FileOperation operation, const std::filesystem::path& file, std::size_t* bytes = nullptr) {
  const FileVerdict verdict = verdict_on(operation, file);
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

FileFaultScope::FileFaultScope(FileFaults faults)
    : faults_(std::make_shared<const FileFaults>(std::move(faults))) {
  const std::lock_guard lock(changing_faults);
  const auto before = faults_in_force.load();
  FaultList list = before ? *before : FaultList{};
  list.push_back(faults_);
  faults_in_force.store(std::make_shared<const FaultList>(std::move(list)));
}

FileFaultScope::~FileFaultScope() {
  const std::lock_guard lock(changing_faults);
  FaultList list = *faults_in_force.load();
  std::erase(list, faults_);
  faults_in_force.store(list.empty() ? nullptr : std::make_shared<const FaultList>(std::move(list)));
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
