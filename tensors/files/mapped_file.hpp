#pragma once
/// A file mapped into memory for reading, so that all stages and processes of a machine share its pages.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace zerolock {

/// A read-only, shared mapping of a whole file. The bytes live as long as the object; whoever hands out
/// pointers into them keeps the shared_ptr. Thread-safe. A file that another program shortens while it is
/// mapped cannot be guarded against: touching the missing pages ends the process.
class MappedFile {
 public:
  /// Throws InputError (naming the file) if it is missing, not a regular file, or cannot be read or mapped.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Takes the whole pages within `part`, which must lie in the file, out of this process's memory. They come
  /// back from the file when they are next touched.
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path file, const std::byte* data, std::size_t size);

  std::filesystem::path path_;
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace zerolock
