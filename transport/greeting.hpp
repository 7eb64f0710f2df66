#pragma once
/// The first moments of a connection: TLS handshake, own first frame, the peer's first frame.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transport/network.hpp"
#include "transport/socket_channel.hpp"

namespace zerolock {

/// How a greeting ended.
struct GreetingEnd {
  std::unique_ptr<SocketChannel> channel;  // null if it broke
  Frame frame;                             // the peer's first, if `failure` is empty
  std::optional<DialFailure> failure;      // reason without the address
  bool other_version = false;              // the peer speaks another protocol version and can be told
};

/// Runs on the loop's thread and calls `done` exactly once.
class Greeting : public LoopMember, public std::enable_shared_from_this<Greeting> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `check_peer` sees the certified identity before the own frame is sent; a text that is not empty ends the
  /// greeting. A dialler gives its own first frame, a listener none.
  Greeting(std::unique_ptr<SocketChannel> channel, std::optional<Frame> own_frame,
           std::function<std::string(const std::optional<NodeIdentity>&)> check_peer,
           std::function<void(GreetingEnd)> done);

  void start(Clock::time_point deadline);
  void shut_down() override { fail(DialFailure::Kind::cancelled, "the network closes"); }
  /// Ends at once, in favour of somebody newer.
  void give_up(const std::string& reason) { fail(DialFailure::Kind::timed_out, reason); }

 private:
  enum class Step { handshake, write, read };

  void advance();
  bool advance_handshake();
  bool advance_write();
  bool advance_read();
  /// True if the result is done; else waits for the socket or fails.
  bool proceed(StreamResult result);
  void wait(asio::ip::tcp::socket::wait_type type);
  void fail(DialFailure::Kind kind, const std::string& reason);
  void finish(GreetingEnd end);

  std::unique_ptr<SocketChannel> channel_;
  asio::steady_timer timer_;
  std::vector<std::byte> unwritten_;
  std::function<std::string(const std::optional<NodeIdentity>&)> check_peer_;
  std::function<void(GreetingEnd)> done_;
  Step step_ = Step::handshake;
};

}  // namespace zerolock
