#pragma once
/// One connection between two processes, after both have agreed to it.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "transport/frame.hpp"
#include "transport/hello.hpp"
#include "transport/link_profile.hpp"

namespace zerolock {

/// What a side allows its peer, and how it sends.
struct ConnectionOptions {
  /// What the peer may send from now on.
  FrameBounds bounds;
  /// Where received payloads are put.
  PayloadAllocator allocate = allocate_payload;
  /// Bytes of frames that wait to be written; send() refuses what would exceed it.
  std::size_t send_queue_bytes = std::size_t{64} << 20;
  /// A beat goes out after so long without a written byte.
  std::chrono::milliseconds beat_interval{500};
  /// A peer from which no byte came for so long is given up; nothing: never. A slow link that trickles is
  /// alive. Several beat intervals of the peer.
  std::optional<std::chrono::milliseconds> silence_limit{2000};
  /// What close() may take to write what is queued.
  std::chrono::milliseconds closing_limit{2000};
  /// A slower network to imitate, from this side to the peer.
  LinkProfile link;
};

/// Called on the network's thread, one at a time and in order; they must return soon, since that thread
/// serves all connections. They may call any member of the connection.
struct ConnectionEvents {
  /// A frame from the peer; never hello, welcome, refuse, beat or bye.
  std::function<void(Frame frame)> received;
  /// The end: called exactly once, after everything else. `cause` is one line.
  std::function<void(std::string cause)> closed;
};

/// Frames of one type in one direction.
struct FrameCounter {
  std::uint64_t frames = 0;
  std::uint64_t metadata_bytes = 0;
  std::uint64_t payload_bytes = 0;

  /// With the framing, without what TLS and TCP add.
  [[nodiscard]] std::uint64_t wire_bytes() const {
    return frames * frame_overhead_bytes + metadata_bytes + payload_bytes;
  }
};

/// What has crossed a connection, from its hello on: sent frames count when they are wholly written, received
/// ones when they are wholly read.
struct ConnectionCounters {
  std::array<FrameCounter, frame_type_count> sent;
  std::array<FrameCounter, frame_type_count> received;

  [[nodiscard]] const FrameCounter& sent_of(FrameType type) const;
  [[nodiscard]] const FrameCounter& received_of(FrameType type) const;
};

/// All members may be called by any thread. Letting go of the last reference closes the connection; `closed`
/// is still called. Nothing is read before start(), so nothing is lost between the agreement and it.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Begins to read and to watch for silence. Call once. A connection that has ended meanwhile calls
  /// `closed`.
  virtual void start(ConnectionEvents events) = 0;

  /// Queues a frame and returns at once. False if the queue is too full or the connection has ended or
  /// closes: the frame is then dropped. Frames are written whole. There are two lanes: control, acknowledge,
  /// credit and request go before blocked, entry and part that have not been begun; within a lane the
  /// order is kept. So a credit waits for at most the one frame that is being written.
  virtual bool send(Frame frame) = 0;

  /// Orderly end: writes what is queued and then a bye with the reason, waits for the peer's end, within
  /// options.closing_limit. No further frames are received. The peer's `closed` names the reason.
  virtual void close(std::string reason) = 0;
  /// Abrupt end, as when the network fails: nothing more is written or read. `closed` names `cause` here; the
  /// peer hears no reason.
  virtual void abort(std::string cause) = 0;

  /// Who is on the other side: proven by its certificate under TLS, by the run's token otherwise.
  [[nodiscard]] virtual const NodeIdentity& peer() const = 0;
  /// "executor node-a at 10.0.0.2:40312", for messages.
  [[nodiscard]] virtual std::string peer_text() const = 0;
  [[nodiscard]] virtual ConnectionCounters counters() const = 0;
  /// Bytes of frames that wait to be written.
  [[nodiscard]] virtual std::size_t queued_bytes() const = 0;
};

}  // namespace zerolock
