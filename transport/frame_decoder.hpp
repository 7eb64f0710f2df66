#pragma once
/// Bytes in, frames out. Knows no sockets: whoever reads asks where the next bytes go.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "transport/frame.hpp"

namespace zerolock {

/// Takes bytes as they come, in pieces of any size:
///
///     read some bytes into next_buffer();  advance(how many);  while (auto frame = next_frame()) ...
///
/// A payload is read straight into the memory that the allocator gives for it. Holds at most one frame in the
/// making, so never more memory than the bounds of one type and a few KiB. Not thread-safe.
class FrameDecoder {
 public:
  explicit FrameDecoder(FrameBounds bounds, PayloadAllocator allocate = allocate_payload);
  ~FrameDecoder();
  FrameDecoder(FrameDecoder&&) noexcept;
  FrameDecoder& operator=(FrameDecoder&&) noexcept;

  /// Other bounds and another allocator from the next header on: call between frames, as after a handshake.
  void set_bounds(FrameBounds bounds, PayloadAllocator allocate);

  /// Where the next bytes go: never empty, valid until the next call of any member.
  [[nodiscard]] std::span<std::byte> next_buffer();
  /// The first `count` bytes of next_buffer() were filled.
  void advance(std::size_t count);
  /// The next whole frame, or nothing while bytes are lacking. Throws FrameError; the decoder is then of no
  /// further use. What the allocator throws passes through.
  std::optional<Frame> next_frame();

  /// True if no byte of an unfinished frame is held: the peer may close here without having cut a frame.
  [[nodiscard]] bool between_frames() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zerolock
