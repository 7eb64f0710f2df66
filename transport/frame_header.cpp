#include "transport/frame_header.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "transport/checksum.hpp"

namespace zerolock {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::array<std::byte, 4> magic{std::byte{'Z'}, std::byte{'L'}, std::byte{'C'}, std::byte{'K'}};
constexpr std::size_t version_at = 4;
constexpr std::size_t type_at = 6;
constexpr std::size_t zero_at = 7;
constexpr std::size_t metadata_bytes_at = 8;
constexpr std::size_t payload_bytes_at = 12;
constexpr std::size_t checksum_at = 20;
static_assert(checksum_at + sizeof(std::uint64_t) == frame_header_bytes);

template <class Number>
void put(std::span<std::byte> bytes, std::size_t at, Number value) {
  std::memcpy(bytes.subspan(at, sizeof value).data(), &value, sizeof value);
}

template <class Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  Number value;
  std::memcpy(&value, bytes.subspan(at, sizeof value).data(), sizeof value);
  return value;
}

void check_length(FrameType type, const char* part, std::uint64_t bytes, std::uint64_t most) {
  if (bytes <= most) return;
  throw FrameError(FrameFault::too_long, std::string(to_string(type)) + " frame announces " +
                                             std::to_string(bytes) + " bytes of " + part + ", at most " +
                                             std::to_string(most) + " are allowed");
}

}  // namespace

FrameHeaderBytes write_frame_header(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  std::copy(magic.begin(), magic.end(), bytes.begin());
  put(bytes, version_at, protocol_version);
  put(bytes, type_at, header.type);
  put(bytes, metadata_bytes_at, header.metadata_bytes);
  put(bytes, payload_bytes_at, header.payload_bytes);
  put(bytes, checksum_at, checksum_of(std::span(bytes).first(checksum_at)));
  return bytes;
}

void check_frame_start(std::span<const std::byte> bytes) {
  const std::size_t known = std::min(bytes.size(), magic.size());
  if (!std::equal(magic.begin(), magic.begin() + static_cast<std::ptrdiff_t>(known), bytes.begin())) {
    throw FrameError(FrameFault::foreign, "the bytes are not those of a zerolock connection");
  }
}

FrameHeader read_frame_header(std::span<const std::byte, frame_header_bytes> bytes,
                              const FrameBounds& bounds) {
  check_frame_start(bytes);
  const auto version = get<std::uint16_t>(bytes, version_at);
  if (version != protocol_version) {
    throw FrameError(FrameFault::other_version, "the peer speaks protocol version " +
                                                    std::to_string(version) + ", this program version " +
                                                    std::to_string(protocol_version));
  }
  if (get<std::uint64_t>(bytes, checksum_at) != checksum_of(bytes.first(checksum_at)) ||
      bytes[zero_at] != std::byte{0}) {
    throw FrameError(FrameFault::damaged_header, "a frame's header is damaged");
  }
  const auto type_value = get<std::uint8_t>(bytes, type_at);
  if (type_value < 1 || type_value > frame_type_count) {
    throw FrameError(FrameFault::unknown_type, "unknown frame type " + std::to_string(type_value));
  }
  FrameHeader header;
  header.type = static_cast<FrameType>(type_value);
  header.metadata_bytes = get<std::uint32_t>(bytes, metadata_bytes_at);
  header.payload_bytes = get<std::uint64_t>(bytes, payload_bytes_at);
  const FrameBounds::Bound& bound = bounds.of(header.type);
  if (!bound.allowed) {
    throw FrameError(FrameFault::unexpected_type,
                     "a " + std::string(to_string(header.type)) + " frame has no place here");
  }
  check_length(header.type, "metadata", header.metadata_bytes, bound.metadata_bytes);
  check_length(header.type, "payload", header.payload_bytes, bound.payload_bytes);
  return header;
}

std::array<std::byte, frame_trailer_bytes> write_frame_trailer(std::uint64_t checksum) {
  std::array<std::byte, frame_trailer_bytes> bytes;
  put(bytes, 0, checksum);
  return bytes;
}

std::uint64_t read_frame_trailer(std::span<const std::byte, frame_trailer_bytes> bytes) {
  return get<std::uint64_t>(bytes, 0);
}

}  // namespace zerolock
