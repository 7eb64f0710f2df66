#pragma once
/// SHA-256 of files and bytes, by OpenSSL.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace zerolock {

/// Hashes piece by piece. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 lower-case hex digits; the object is used up.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_of(std::span<const std::byte> bytes);
std::string sha256_of(std::string_view text);
/// Throws InputError if the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace zerolock
