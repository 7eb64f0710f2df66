#pragma once
/// The unit of every connection. On the wire, little-endian:
///
///     magic "ZLCK" | version u16 | type u8 | zero u8 | metadata length u32 | payload length u64 |
///     XXH3-64 of the 20 bytes before | metadata | payload | XXH3-64 of metadata and payload
///
/// So a frame is 36 bytes more than what it carries. Lengths are held against bounds before anything is
/// allocated for them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "transport/payload.hpp"

namespace zerolock {

/// Raised whenever frames or handshakes change. Sides of different versions refuse each other.
inline constexpr std::uint16_t protocol_version = 1;

enum class FrameType : std::uint8_t {
  hello = 1,    // dialler -> listener, first frame: who, for what (hello.hpp)
  welcome,      // listener -> dialler: accepted
  refuse,       // listener -> dialler: not accepted, and why
  control,      // messages between actors
  acknowledge,  // what the receiver has, and what it needs no more
  entry,        // one micro-batch across a boundary (entry_frame.hpp)
  credit,       // what the sender of entries may send
  blocked,      // an entry waits for bytes of credit
  request,      // asks for a piece of a file or tensor
  part,         // such a piece
  beat,         // still here; sent and consumed by the connection itself
  bye,          // last frame: why this side closes; sent and consumed by the connection itself
};
inline constexpr std::size_t frame_type_count = 12;
std::string_view to_string(FrameType type);

/// Bytes of the fixed header, and of the checksum at the end.
inline constexpr std::size_t frame_header_bytes = 28;
inline constexpr std::size_t frame_trailer_bytes = 8;
inline constexpr std::size_t frame_overhead_bytes = frame_header_bytes + frame_trailer_bytes;

/// The reason in a bye frame.
inline constexpr std::uint32_t bye_bytes_max = 1024;

struct Frame {
  FrameType type = FrameType::beat;
  std::vector<std::byte> metadata;
  Payload payload;
  bool damaged = false;  // an injected fault: it goes out with a checksum that is wrong

  /// Bytes on the wire, without those that TLS adds.
  [[nodiscard]] std::size_t wire_bytes() const {
    return frame_overhead_bytes + metadata.size() + payload.size();
  }
};

/// What a side takes from its peer: the most bytes of metadata and payload for each type. A type that was not
/// allowed ends the connection. A new object allows beat and bye only.
class FrameBounds {
 public:
  struct Bound {
    bool allowed = false;
    std::uint32_t metadata_bytes = 0;
    std::uint64_t payload_bytes = 0;
  };

  FrameBounds();
  /// Allows a type up to and including these lengths. Returns itself, so that calls can be chained.
  FrameBounds& allow(FrameType type, std::uint32_t metadata_bytes, std::uint64_t payload_bytes = 0);
  [[nodiscard]] const Bound& of(FrameType type) const;

 private:
  std::array<Bound, frame_type_count> bounds_;
};

/// What can be wrong with bytes that should have been a frame.
enum class FrameFault : std::uint8_t {
  foreign,          // not this protocol at all
  other_version,    // this protocol, but another version of it
  damaged_header,   // its checksum is wrong, or what must be zero is not
  unknown_type,     // a type that this version does not know
  unexpected_type,  // a type that this connection does not allow
  too_long,         // metadata or payload above its bound
  damaged,          // the checksum of metadata and payload is wrong
};

/// Bytes that are no acceptable frame; the message is one line. The connection cannot go on.
class FrameError : public std::runtime_error {
 public:
  FrameError(FrameFault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  [[nodiscard]] FrameFault fault() const { return fault_; }

 private:
  FrameFault fault_;
};

}  // namespace zerolock
