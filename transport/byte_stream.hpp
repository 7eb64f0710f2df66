#pragma once
/// Bytes over a connected socket, plain or through TLS. Never blocks: whoever uses it waits for the socket.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/security.hpp"

namespace zerolock {

/// How far a call came. `wants_read` and `wants_write`: call again, with the same buffers, when the socket is
/// ready for that.
enum class StreamState { done, wants_read, wants_write, ended, failed };

struct StreamResult {
  StreamState state = StreamState::done;
  std::size_t bytes = 0;  // state done: how many, at least 1
  std::string reason;     // state failed: one line
  bool about_security = false;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Until it is done nothing can be read or written. Without TLS it is done at once.
  virtual StreamResult handshake() = 0;
  /// Reads at least one byte into the buffer.
  virtual StreamResult read(std::span<std::byte> buffer) = 0;
  /// Writes some bytes from the front of the list, which is not empty and has no empty buffers.
  virtual StreamResult write(const std::vector<std::span<const std::byte>>& buffers) = 0;
  /// Who the peer's certificate names, after the handshake; nothing without TLS.
  [[nodiscard]] virtual std::optional<NodeIdentity> certified_peer() const = 0;
};

/// Which side of a handshake this is.
enum class StreamSide { dialler, listener };

/// Over a non-blocking socket that the caller owns and keeps open as long as the stream. Throws RunError.
std::unique_ptr<ByteStream> make_byte_stream(int socket, const Security& security, StreamSide side);

}  // namespace zerolock
