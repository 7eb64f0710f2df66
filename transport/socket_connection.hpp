#pragma once
/// A connection over a socket: reading, writing, beats, silence and the end.

#include <asio/steady_timer.hpp>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "transport/connection.hpp"
#include "transport/frame_writer.hpp"
#include "transport/send_queue.hpp"
#include "transport/socket_channel.hpp"

namespace zerolock {

/// Counters that one thread writes and any thread reads.
class SharedCounters {
 public:
  void count_sent(const Frame& frame) { sent_[index_of(frame.type)].add(frame); }
  void count_received(const Frame& frame) { received_[index_of(frame.type)].add(frame); }
  [[nodiscard]] ConnectionCounters snapshot() const;

 private:
  struct Counter {
    std::atomic<std::uint64_t> frames{0};
    std::atomic<std::uint64_t> metadata_bytes{0};
    std::atomic<std::uint64_t> payload_bytes{0};
    void add(const Frame& frame);
    [[nodiscard]] FrameCounter snapshot() const;
  };
  static std::size_t index_of(FrameType type) { return static_cast<std::size_t>(type) - 1; }
  std::array<Counter, frame_type_count> sent_;
  std::array<Counter, frame_type_count> received_;
};

/// What the owner's handle and the loop share. Kept alive by the operations that are pending on the loop, so
/// it ends only by end().
class SocketConnection : public LoopMember, public std::enable_shared_from_this<SocketConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  SocketConnection(std::unique_ptr<SocketChannel> channel, NodeIdentity peer, ConnectionOptions options);

  // -- on the loop's thread, right after the greeting --
  /// Begins to write: `first` goes before everything else, if there is one.
  void open(std::optional<Frame> first);
  /// Writes `last` and closes: a connection that nobody owns, for a refusal.
  void refuse(Frame last);
  /// Counts a frame of the greeting.
  SharedCounters& counters() { return counters_; }

  // -- any thread: what Connection offers --
  void start(ConnectionEvents events);
  bool send(Frame frame);
  void close(std::string reason);
  void abort(std::string cause);
  [[nodiscard]] const NodeIdentity& peer() const { return peer_; }
  [[nodiscard]] const std::string& peer_text() const { return peer_text_; }
  [[nodiscard]] const SendQueue& queue() const { return queue_; }
  [[nodiscard]] const SharedCounters& counters() const { return counters_; }

  void shut_down() override;

 private:
  enum class State { open, closing, ended };

  void begin(ConnectionEvents events);
  void begin_closing(std::string cause, Frame last);
  void end(const std::string& cause);
  void tell_closed();

  void read();
  void read_turn();
  bool take_frames();
  void handle(Frame frame);
  void wait_to_read(asio::ip::tcp::socket::wait_type type);

  void write();
  void wait_to_write(asio::ip::tcp::socket::wait_type type);
  void written(const Frame& frame);
  void last_was_written();

  void wait_for_beat();
  void wait_for_silence(Clock::time_point until);
  [[nodiscard]] bool bytes_are_waiting();

  const std::unique_ptr<SocketChannel> channel_;
  const NodeIdentity peer_;
  const std::string peer_text_;
  const ConnectionOptions options_;
  SendQueue queue_;
  SharedCounters counters_;
  std::atomic<bool> ended_{false};

  // Of the loop's thread alone from here on.
  State state_ = State::open;
  FrameWriter writer_;
  std::optional<ConnectionEvents> events_;
  std::string cause_;  // of the end, once closing
  bool reading_ = false;
  bool writing_ = false;       // a handler will call write()
  bool timed_write_ = false;   // that handler is write_timer_'s
  bool last_written_ = false;  // the bye or the refusal is out
  Clock::time_point heard_;
  Clock::time_point spoken_;
  asio::steady_timer write_timer_;
  asio::steady_timer beat_timer_;
  asio::steady_timer silence_timer_;
  asio::steady_timer closing_timer_;
};

/// The owner's handle.
std::shared_ptr<Connection> make_connection_handle(std::shared_ptr<SocketConnection> connection);

}  // namespace zerolock
