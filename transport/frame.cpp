#include "transport/frame.hpp"

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

std::size_t index_of(FrameType type) {
  const auto value = static_cast<std::size_t>(type);
  ZEROLOCK_INVARIANT(value >= 1 && value <= frame_type_count, "a frame has a known type");
  return value - 1;
}

}  // namespace

std::string_view to_string(FrameType type) {
  static constexpr std::array<std::string_view, frame_type_count> names{
      "hello",  "welcome", "refuse",  "control", "acknowledge", "entry",
      "credit", "blocked", "request", "part",    "beat",        "bye"};
  return names[index_of(type)];
}

FrameBounds::FrameBounds() {
  allow(FrameType::beat, 0);
  allow(FrameType::bye, bye_bytes_max);
}

FrameBounds& FrameBounds::allow(FrameType type, std::uint32_t metadata_bytes, std::uint64_t payload_bytes) {
  bounds_[index_of(type)] = {true, metadata_bytes, payload_bytes};
  return *this;
}

const FrameBounds::Bound& FrameBounds::of(FrameType type) const {
  return bounds_[index_of(type)];
}

}  // namespace zerolock
