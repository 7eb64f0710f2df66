#include "actors/remote/boundary_frames.hpp"

#include "transport/wire_archive.hpp"

namespace zerolock {

template <class Archive>
void serialize(Archive& archive, BoundaryHello& hello) {
  archive(hello.session, hello.first_lacking);
}
template <class Archive>
void serialize(Archive& archive, SessionCredit& credit) {
  archive(credit.session, credit.credit.entries_total, credit.credit.bytes_total);
}
template <class Archive>
void serialize(Archive& archive, BlockedEntry& blocked) {
  archive(blocked.position, blocked.bytes);
}

namespace {

constexpr std::uint32_t small_frame_bytes_max = 64;
constexpr std::size_t small_frames_room = std::size_t{1} << 20;

}  // namespace

Frame opening_frame(const BoundaryHello& hello) {
  return {FrameType::request, to_wire(hello), {}};
}
Frame credit_frame(const SessionCredit& credit) {
  return {FrameType::credit, to_wire(credit), {}};
}
Frame blocked_frame(const BlockedEntry& blocked) {
  return {FrameType::blocked, to_wire(blocked), {}};
}

BoundaryHello read_opening(const Frame& frame) {
  return from_wire<BoundaryHello>(frame.metadata, "opening of a boundary");
}
SessionCredit read_credit(const Frame& frame) {
  return from_wire<SessionCredit>(frame.metadata, "credit");
}
BlockedEntry read_blocked(const Frame& frame) {
  return from_wire<BlockedEntry>(frame.metadata, "blocked entry");
}

ConnectionOptions downstream_options(const BoundaryTerms& terms) {
  ConnectionOptions options;
  options.bounds
      .allow(FrameType::entry, entry_metadata_bytes_max(terms.limits), entry_payload_bytes_max(terms.limits))
      .allow(FrameType::blocked, small_frame_bytes_max);
  options.send_queue_bytes = small_frames_room;
  return options;
}

ConnectionOptions upstream_options(const BoundaryTerms& terms) {
  ConnectionOptions options;
  options.bounds.allow(FrameType::request, small_frame_bytes_max)
      .allow(FrameType::credit, small_frame_bytes_max);
  // Credit bounds what is sent, to what the downstream's buffer holds; the rest is framing.
  options.send_queue_bytes = terms.buffer_bytes_max + small_frames_room;
  return options;
}

}  // namespace zerolock
