#pragma once
/// XXH3-64: finds damage, proves nothing about who wrote the bytes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace zerolock {

std::uint64_t checksum_of(std::span<const std::byte> bytes);

/// The same, piece by piece.
class Checksum {
 public:
  Checksum();

  void update(std::span<const std::byte> bytes);
  /// Of everything since the start or the last reset().
  [[nodiscard]] std::uint64_t value() const;
  void reset();

 private:
  struct Release {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Release> state_;
};

}  // namespace zerolock
