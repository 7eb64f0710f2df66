#include "tensors/files/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/descriptor.hpp"

namespace zerolock {
namespace {

std::string reason(const char* what) {
  return std::string(what) + ": " + std::error_code(errno, std::generic_category()).message();
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& file) {
  const Descriptor descriptor(file, O_RDONLY);  // the mapping outlives it
  if (descriptor.number() < 0) throw InputError(file.string(), reason("cannot be opened"));
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0)
    throw InputError(file.string(), reason("cannot be examined"));
  if (!S_ISREG(status.st_mode)) throw InputError(file.string(), "is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.number(), 0);
    if (address == MAP_FAILED) throw InputError(file.string(), reason("cannot be mapped into memory"));
    data = static_cast<const std::byte*>(address);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(file, data, size));
}

MappedFile::MappedFile(std::filesystem::path file, const std::byte* data, std::size_t size)
    : path_(std::move(file)), data_(data), size_(size) {}

void MappedFile::release(std::span<const std::byte> part) const {
  ZEROLOCK_INVARIANT(part.data() >= data_ && part.data() + part.size() <= data_ + size_,
                     "the part lies in the file");
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t last = (offset + part.size()) / page * page;
  // Only a hint: where it fails the pages stay until the system takes them.
  if (first < last) ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace zerolock
