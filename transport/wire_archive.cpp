#include "transport/wire_archive.hpp"

namespace zerolock {

void WireReader::read(void* data, std::size_t count) {
  const std::span<const std::byte> bytes = read_bytes(count);
  if (count > 0) std::memcpy(data, bytes.data(), count);
}

std::size_t WireReader::read_length(std::size_t item_bytes) {
  std::uint32_t count = 0;
  read(&count, sizeof count);
  if (count > bytes_.size() / item_bytes) {
    fail("a list of " + std::to_string(count) + " items does not fit the " + std::to_string(bytes_.size()) +
         " bytes that follow");
  }
  return count;
}

std::span<const std::byte> WireReader::read_bytes(std::size_t count) {
  if (count > bytes_.size()) {
    fail("ends " + std::to_string(count - bytes_.size()) + " bytes too early");
  }
  const std::span<const std::byte> bytes = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  return bytes;
}

void WireReader::finish() const {
  if (!bytes_.empty()) fail(std::to_string(bytes_.size()) + " bytes too many");
}

void WireReader::fail(const std::string& reason) const {
  throw WireError(std::string(what_) + ": " + reason);
}

}  // namespace zerolock
