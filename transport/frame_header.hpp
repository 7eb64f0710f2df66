#pragma once
/// The fixed part of a frame, as bytes and as values. For the encoder and the decoder.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/frame.hpp"

namespace zerolock {

struct FrameHeader {
  FrameType type = FrameType::beat;
  std::uint32_t metadata_bytes = 0;
  std::uint64_t payload_bytes = 0;
};

using FrameHeaderBytes = std::array<std::byte, frame_header_bytes>;

FrameHeaderBytes write_frame_header(const FrameHeader& header);

/// Throws FrameError if what there is of a header, maybe its first bytes only, is not of this protocol: a
/// peer that speaks another one need not be waited for.
void check_frame_start(std::span<const std::byte> bytes);
/// Throws FrameError for a header that is damaged or breaks the bounds.
FrameHeader read_frame_header(std::span<const std::byte, frame_header_bytes> bytes,
                              const FrameBounds& bounds);

/// A frame's checksum at its end.
std::array<std::byte, frame_trailer_bytes> write_frame_trailer(std::uint64_t checksum);
std::uint64_t read_frame_trailer(std::span<const std::byte, frame_trailer_bytes> bytes);

}  // namespace zerolock
