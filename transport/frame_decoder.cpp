#include "transport/frame_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/checksum.hpp"
#include "transport/frame_header.hpp"

namespace zerolock {

namespace {

/// Headers, trailers and whole small frames are read together through the stage; from this many missing bytes
/// on, metadata and payload are read to where they belong.
constexpr std::size_t stage_bytes = 16384;
constexpr std::size_t direct_bytes_min = 4096;

}  // namespace

struct FrameDecoder::State {
  enum class Part { header, metadata, payload, trailer };

  State(FrameBounds bounds_, PayloadAllocator allocate_)
      : bounds(bounds_), allocate(std::move(allocate_)), stage(stage_bytes) {}

  // What is allowed.
  FrameBounds bounds;
  PayloadAllocator allocate;

  // Bytes that were read and not yet looked at: stage[begin, end).
  std::vector<std::byte> stage;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool reading_direct = false;

  // The frame in the making.
  Part part = Part::header;
  Frame frame;
  std::span<std::byte> missing;  // of the metadata or the payload
  std::uint64_t payload_bytes = 0;
  Checksum checksum;

  [[nodiscard]] std::span<const std::byte> staged() const {
    return std::span(stage).subspan(begin, end - begin);
  }

  void make_room() {
    if (begin == end) {
      begin = end = 0;
    } else if (begin > 0) {
      std::memmove(stage.data(), stage.data() + begin, end - begin);
      end -= std::exchange(begin, 0);
    }
  }

  /// The first bytes of `missing` are in place.
  void filled(std::size_t count) {
    checksum.update(missing.first(count));
    missing = missing.subspan(count);
  }

  /// Moves staged bytes to where they belong. True if nothing is missing any more.
  bool fill_from_stage() {
    const std::size_t count = std::min(missing.size(), end - begin);
    if (count > 0) {
      std::memcpy(missing.data(), stage.data() + begin, count);
      begin += count;
      filled(count);
    }
    return missing.empty();
  }

  bool take_header() {
    if (staged().size() < frame_header_bytes) {
      check_frame_start(staged());
      return false;
    }
    const FrameHeader header = read_frame_header(staged().first<frame_header_bytes>(), bounds);
    begin += frame_header_bytes;
    checksum.reset();
    frame = Frame{};
    frame.type = header.type;
    frame.metadata.resize(header.metadata_bytes);
    payload_bytes = header.payload_bytes;
    missing = frame.metadata;
    part = Part::metadata;
    return true;
  }

  bool take_metadata() {
    if (!fill_from_stage()) return false;
    if (payload_bytes > 0) {
      PayloadMemory memory = allocate(payload_bytes);
      ZEROLOCK_INVARIANT(memory.bytes.size() == payload_bytes, "an allocator gives what was asked for");
      missing = memory.bytes;
      frame.payload = {memory.bytes, std::move(memory.owner)};
    }
    part = Part::payload;
    return true;
  }

  bool take_payload() {
    if (!fill_from_stage()) return false;
    part = Part::trailer;
    return true;
  }

  bool take_trailer() {
    if (staged().size() < frame_trailer_bytes) return false;
    const std::uint64_t stated = read_frame_trailer(staged().first<frame_trailer_bytes>());
    begin += frame_trailer_bytes;
    if (stated != checksum.value()) {
      throw FrameError(FrameFault::damaged,
                       "the checksum of a " + std::string(to_string(frame.type)) + " frame is wrong");
    }
    part = Part::header;
    return true;
  }
};

FrameDecoder::FrameDecoder(FrameBounds bounds, PayloadAllocator allocate)
    : state_(std::make_unique<State>(bounds, std::move(allocate))) {}
FrameDecoder::~FrameDecoder() = default;
FrameDecoder::FrameDecoder(FrameDecoder&&) noexcept = default;
FrameDecoder& FrameDecoder::operator=(FrameDecoder&&) noexcept = default;

void FrameDecoder::set_bounds(FrameBounds bounds, PayloadAllocator allocate) {
  ZEROLOCK_INVARIANT(state_->part == State::Part::header, "bounds change between frames");
  state_->bounds = bounds;
  state_->allocate = std::move(allocate);
}

std::span<std::byte> FrameDecoder::next_buffer() {
  State& s = *state_;
  s.reading_direct = s.begin == s.end && s.missing.size() >= direct_bytes_min;
  if (s.reading_direct) return s.missing;
  s.make_room();
  ZEROLOCK_INVARIANT(s.end < s.stage.size(), "frames are taken out before more bytes come");
  return std::span(s.stage).subspan(s.end);
}

void FrameDecoder::advance(std::size_t count) {
  State& s = *state_;
  if (s.reading_direct) {
    ZEROLOCK_INVARIANT(count <= s.missing.size(), "no more bytes than there was room for");
    s.filled(count);
  } else {
    ZEROLOCK_INVARIANT(count <= s.stage.size() - s.end, "no more bytes than there was room for");
    s.end += count;
  }
}

std::optional<Frame> FrameDecoder::next_frame() {
  State& s = *state_;
  while (true) {
    switch (s.part) {
      case State::Part::header:
        if (!s.take_header()) return std::nullopt;
        break;
      case State::Part::metadata:
        if (!s.take_metadata()) return std::nullopt;
        break;
      case State::Part::payload:
        if (!s.take_payload()) return std::nullopt;
        break;
      case State::Part::trailer:
        if (!s.take_trailer()) return std::nullopt;
        return std::exchange(s.frame, Frame{});
    }
  }
}

bool FrameDecoder::between_frames() const {
  return state_->part == State::Part::header && state_->begin == state_->end;
}

}  // namespace zerolock
