#include "transport/frame_encoder.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/checksum.hpp"
#include "transport/frame_header.hpp"

namespace zerolock {

struct FrameEncoder::State {
  explicit State(Frame frame_) : frame(std::move(frame_)) {
    ZEROLOCK_INVARIANT(frame.metadata.size() <= std::numeric_limits<std::uint32_t>::max(),
                       "a frame's metadata has at most 2^32 - 1 bytes");
    const FrameHeaderBytes header = write_frame_header(
        {frame.type, static_cast<std::uint32_t>(frame.metadata.size()), frame.payload.size()});
    head.reserve(header.size() + frame.metadata.size());
    head.assign(header.begin(), header.end());
    head.insert(head.end(), frame.metadata.begin(), frame.metadata.end());
    checksum.update(frame.metadata);
    unread_head = head;
    unread_payload = frame.payload.bytes;
  }

  Frame frame;
  std::vector<std::byte> head;  // header and metadata
  std::array<std::byte, frame_trailer_bytes> trailer{};
  Checksum checksum;
  // What was not given yet. The trailer is written when the last byte of the payload is given.
  std::span<const std::byte> unread_head;
  std::span<const std::byte> unread_payload;
  std::size_t trailer_given = 0;
  bool trailer_known = false;

  /// Takes at most `most` bytes from the front of `from`.
  static std::span<const std::byte> take(std::span<const std::byte>& from, std::size_t most) {
    const std::span<const std::byte> taken = from.first(std::min(most, from.size()));
    from = from.subspan(taken.size());
    return taken;
  }
};

FrameEncoder::FrameEncoder(Frame frame) : state_(std::make_unique<State>(std::move(frame))) {}
FrameEncoder::~FrameEncoder() = default;
FrameEncoder::FrameEncoder(FrameEncoder&&) noexcept = default;
FrameEncoder& FrameEncoder::operator=(FrameEncoder&&) noexcept = default;

std::size_t FrameEncoder::gather(std::size_t most, std::vector<std::span<const std::byte>>& buffers) {
  State& s = *state_;
  std::size_t given = 0;
  const auto give = [&](std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    buffers.push_back(bytes);
    given += bytes.size();
  };
  give(State::take(s.unread_head, most));
  const std::span<const std::byte> payload = State::take(s.unread_payload, most - given);
  s.checksum.update(payload);
  give(payload);
  if (s.unread_head.empty() && s.unread_payload.empty() && !std::exchange(s.trailer_known, true)) {
    s.trailer = write_frame_trailer(s.checksum.value());
    if (s.frame.damaged) s.trailer.front() ^= std::byte{1};
  }
  if (s.trailer_known) {
    std::span<const std::byte> rest = std::span<const std::byte>(s.trailer).subspan(s.trailer_given);
    rest = State::take(rest, most - given);
    s.trailer_given += rest.size();
    give(rest);
  }
  return given;
}

std::size_t FrameEncoder::remaining() const {
  const State& s = *state_;
  return s.unread_head.size() + s.unread_payload.size() + (frame_trailer_bytes - s.trailer_given);
}

const Frame& FrameEncoder::frame() const {
  return state_->frame;
}

}  // namespace zerolock
