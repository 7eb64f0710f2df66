#pragma once
/// Frames from a queue onto a stream, as fast as the link to be imitated allows.

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "transport/byte_stream.hpp"
#include "transport/frame_encoder.hpp"
#include "transport/link_profile.hpp"
#include "transport/send_queue.hpp"

namespace zerolock {

/// For the network's thread. The order between frames is decided when the link takes a frame's first byte;
/// what is on the imitated link waits in a line until it arrives.
class FrameWriter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// What has to happen before there is more to do.
  enum class Wait { frames, time, socket_read, socket_write, turn, failed };
  struct Progress {
    Wait wait = Wait::frames;
    TimePoint until;     // Wait::time
    std::string reason;  // Wait::failed
  };

  /// `written` is called for each frame whose last byte was written. Queue and stream must outlive the
  /// writer.
  FrameWriter(ByteStream& stream, SendQueue& queue, const LinkProfile& link,
              std::function<void(const Frame&)> written);

  /// Writes what can be written now. `Wait::turn`: there is more, but others should have a turn.
  Progress pump(TimePoint now);
  /// True if a frame that came now would go out next: nothing waits for the socket or for the link.
  [[nodiscard]] bool idle() const;
  /// Forgets what was not written.
  void abandon();

 private:
  struct Begun {
    FrameEncoder encoder;
    TimePoint ready;
    std::size_t unwritten;
  };
  struct Piece {
    std::span<const std::byte> bytes;
    TimePoint due;
  };

  bool begin_next_frame();
  void fill_line(TimePoint now);
  /// The bytes that are due, at most one write's worth.
  std::size_t gather_due(TimePoint now);
  void count_written(std::size_t bytes);
  [[nodiscard]] TimePoint next_event(TimePoint now) const;

  ByteStream* stream_;
  SendQueue* queue_;
  LinkSchedule schedule_;
  bool shaped_;
  std::function<void(const Frame&)> written_;
  std::deque<Begun> frames_;  // begun and not wholly written, in the order of their bytes
  std::deque<Piece> line_;
  std::size_t line_bytes_ = 0;
  std::vector<std::span<const std::byte>> buffers_;
};

}  // namespace zerolock
