#include "transport/frame_writer.hpp"

#include <algorithm>
#include <utility>

namespace zerolock {

namespace {

constexpr std::size_t write_bytes_max = std::size_t{256} << 10;
constexpr std::size_t write_buffers_max = 64;
constexpr std::size_t turn_bytes = std::size_t{2} << 20;

}  // namespace

FrameWriter::FrameWriter(ByteStream& stream, SendQueue& queue, const LinkProfile& link,
                         std::function<void(const Frame&)> written)
    : stream_(&stream),
      queue_(&queue),
      schedule_(link),
      shaped_(link.shapes()),
      written_(std::move(written)) {}

FrameWriter::Progress FrameWriter::pump(TimePoint now) {
  std::size_t budget = turn_bytes;
  while (true) {
    fill_line(now);
    if (gather_due(now) == 0) {
      const TimePoint until = next_event(now);
      if (until == TimePoint::max()) return {Wait::frames, {}, {}};
      return {Wait::time, until, {}};
    }
    StreamResult result = stream_->write(buffers_);
    switch (result.state) {
      case StreamState::done:
        count_written(result.bytes);
        break;
      case StreamState::wants_read:
        return {Wait::socket_read, {}, {}};
      case StreamState::wants_write:
        return {Wait::socket_write, {}, {}};
      case StreamState::ended:
        return {Wait::failed, {}, "the peer closed the connection"};
      case StreamState::failed:
        return {Wait::failed, {}, std::move(result.reason)};
    }
    if (result.bytes >= budget) return {Wait::turn, {}, {}};
    budget -= result.bytes;
  }
}

bool FrameWriter::idle() const {
  return frames_.empty() || (shaped_ && frames_.back().encoder.remaining() == 0);
}

void FrameWriter::abandon() {
  buffers_.clear();
  line_.clear();
  line_bytes_ = 0;
  frames_.clear();
}

bool FrameWriter::begin_next_frame() {
  std::optional<SendQueue::Queued> next = queue_->pop();
  if (!next) return false;
  const std::size_t bytes = next->frame.wire_bytes();
  frames_.push_back({FrameEncoder(std::move(next->frame)), next->since, bytes});
  return true;
}

/// Puts bytes on the link: one write's worth where it takes all at once, else as much as it has taken by now.
void FrameWriter::fill_line(TimePoint now) {
  while (shaped_ ? schedule_.free_at() <= now : line_bytes_ < write_bytes_max) {
    const bool between = frames_.empty() || frames_.back().encoder.remaining() == 0;
    if (between && !begin_next_frame()) return;
    Begun& frame = frames_.back();
    const std::size_t room = shaped_ ? schedule_.piece_bytes() : write_bytes_max - line_bytes_;
    std::vector<std::span<const std::byte>> given;
    const std::size_t bytes = frame.encoder.gather(room, given);
    const TimePoint due = shaped_ ? schedule_.transmit(frame.ready, bytes) : now;
    for (const std::span<const std::byte> piece : given) line_.push_back({piece, due});
    line_bytes_ += bytes;
  }
}

std::size_t FrameWriter::gather_due(TimePoint now) {
  buffers_.clear();
  std::size_t bytes = 0;
  for (const Piece& piece : line_) {
    if (piece.due > now || bytes >= write_bytes_max || buffers_.size() >= write_buffers_max) break;
    buffers_.push_back(piece.bytes);
    bytes += piece.bytes.size();
  }
  return bytes;
}

void FrameWriter::count_written(std::size_t bytes) {
  line_bytes_ -= bytes;
  for (std::size_t left = bytes; left > 0;) {
    Piece& piece = line_.front();
    const std::size_t taken = std::min(left, piece.bytes.size());
    piece.bytes = piece.bytes.subspan(taken);
    left -= taken;
    if (piece.bytes.empty()) line_.pop_front();
  }
  while (bytes > 0) {
    Begun& frame = frames_.front();
    const std::size_t taken = std::min(bytes, frame.unwritten);
    frame.unwritten -= taken;
    bytes -= taken;
    if (frame.unwritten > 0) continue;
    const Frame& done = frame.encoder.frame();
    queue_->written(done.wire_bytes());
    written_(done);
    frames_.pop_front();
  }
}

/// When bytes come due, or the link can take more of what is there.
FrameWriter::TimePoint FrameWriter::next_event(TimePoint now) const {
  TimePoint next = TimePoint::max();
  if (!line_.empty()) next = line_.front().due;
  // A link that is free took everything there was.
  if (shaped_ && schedule_.free_at() > now) next = std::min(next, schedule_.free_at());
  return next;
}

}  // namespace zerolock
