#pragma once
/// Bytes that travel behind a frame's metadata: referred to, never copied.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace zerolock {

/// Bytes that live as long as their owner is held. Written by nobody once they are in a frame.
struct Payload {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  [[nodiscard]] std::size_t size() const { return bytes.size(); }
};

/// Memory that a payload is received into.
struct PayloadMemory {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

/// Gives memory for a payload of that many bytes, at least 1, aligned to 64 bytes. Called on the network's
/// thread after the length was held against the connection's bounds; what it throws ends the connection.
using PayloadAllocator = std::function<PayloadMemory(std::size_t bytes)>;

/// From the C++ heap, charged to no account.
PayloadMemory allocate_payload(std::size_t bytes);

}  // namespace zerolock
