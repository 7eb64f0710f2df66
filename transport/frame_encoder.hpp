#pragma once
/// A frame as the list of buffers that are written for it.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/frame.hpp"

namespace zerolock {

/// Gives a frame's bytes piece by piece, in order, without copying the payload. The checksum is taken piece
/// by piece, while the bytes are in the cache for the write. Not thread-safe.
class FrameEncoder {
 public:
  /// Throws std::logic_error if the metadata's length does not fit its field.
  explicit FrameEncoder(Frame frame);
  ~FrameEncoder();
  FrameEncoder(FrameEncoder&&) noexcept;
  FrameEncoder& operator=(FrameEncoder&&) noexcept;

  /// Appends to `buffers` the next bytes, at most `most` (at least 1) of them, in at most three buffers, and
  /// counts them as given. They stay valid as long as the encoder. Returns how many bytes; 0 when all were
  /// given before.
  std::size_t gather(std::size_t most, std::vector<std::span<const std::byte>>& buffers);
  /// Bytes that gather() has not given yet.
  [[nodiscard]] std::size_t remaining() const;
  [[nodiscard]] const Frame& frame() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zerolock
