#pragma once
/// What this machine does without any protocol: the rates that a boundary's is compared with.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace zerolock {

/// Two connected sockets of loopback, written to by the calling thread and read by another, with Asio's own
/// blocking calls.
class PlainLoopback {
 public:
  /// For messages of that many bytes. Throws RunError if there is no loopback.
  explicit PlainLoopback(std::size_t message_bytes);
  ~PlainLoopback();
  PlainLoopback(const PlainLoopback&) = delete;
  PlainLoopback& operator=(const PlainLoopback&) = delete;

  /// Seconds that so many messages took. Throws RunError if the connection breaks.
  double transfer(std::uint64_t count);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// AES-128 is what both ends of a connection prefer.
enum class GcmKey { aes_128, aes_256 };

/// Seconds in which one thread encrypts that many bytes in TLS records of 16 KiB, as `openssl speed -evp
/// aes-128-gcm -bytes 16384` does. Throws RunError.
double cipher_seconds(std::uint64_t bytes, GcmKey key);
/// The same with AES-128-GCM, while another thread decrypts as many: what the two ends of a connection must
/// do at least.
double both_ends_cipher_seconds(std::uint64_t bytes);

}  // namespace zerolock
