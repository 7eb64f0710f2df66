#pragma once
/// Two ends of a connection whose events a test can wait for, and sockets that do what no connection does.

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/network.hpp"

namespace zerolock::test {

/// What a connection told its owner.
class Events : public std::enable_shared_from_this<Events> {
 public:
  [[nodiscard]] ConnectionEvents callbacks();
  /// The next frame that was not taken yet; waits for it. Nothing if the connection ends before.
  std::optional<Frame> frame();
  /// Waits for the end.
  std::string cause();
  [[nodiscard]] int closed_count();
  [[nodiscard]] bool received_after_closed();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Frame> frames_;
  std::vector<std::string> causes_;
  bool received_after_closed_ = false;
};

/// An accepted or dialled connection with its events.
struct End {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Events> events = std::make_shared<Events>();

  void start() { connection->start(events->callbacks()); }
};

/// Bounds that take everything a test sends.
ConnectionOptions open_options();

/// A coordinator that listens on a free port and accepts everybody, unless told otherwise.
class Server {
 public:
  struct Settings {
    std::string host = "127.0.0.1";
    Security security = Security::plain();
    std::string token = "token";
    ConnectionOptions connection = open_options();
    std::chrono::milliseconds hello_limit{60000};
    std::size_t unknown_peers_max = 64;
    std::string refusal;  // not empty: everybody is refused with it
    bool start = true;    // accepted connections are started at once
  };

  explicit Server(Settings settings);
  Server() : Server(Settings{}) {}

  [[nodiscard]] const Address& address() const { return listener_->address(); }
  /// The next accepted connection; waits for it.
  End accepted();
  /// Waits for a line about somebody who was turned away.
  std::string rejection();
  Network& network() { return network_; }
  void close_listener() { listener_.reset(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<End> accepted_;
  std::deque<std::string> rejections_;
  Settings settings_;
  Network network_;
  std::unique_ptr<Listener> listener_;
};

/// What an executor named node-a would dial with.
DialOptions dial_options(const Address& address);
/// Waits for the result.
DialResult dial(Network& network, DialOptions options);
/// Fails the test unless dialling succeeds; the connection is started.
End connect(Network& network, DialOptions options);
/// The failure of dialling that has to fail.
DialFailure dial_failure(Network& network, DialOptions options);

Frame entry_of(std::size_t payload_bytes, std::uint8_t seed, std::size_t metadata_bytes = 8);
[[nodiscard]] bool is_entry_of(const Frame& frame, std::size_t payload_bytes, std::uint8_t seed);
std::vector<std::byte> wire_bytes(Frame frame);
std::vector<std::byte> hello_bytes(const std::string& token);

/// A plain socket that sends what it likes.
class RawSocket {
 public:
  /// Connects to an IPv4 or IPv6 address.
  explicit RawSocket(const Address& address);
  explicit RawSocket(int descriptor) : descriptor_(descriptor) {}
  ~RawSocket();
  RawSocket(RawSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  /// False if the peer has closed.
  bool send(std::span<const std::byte> bytes);
  /// Reads exactly so many bytes, fewer only at the end.
  std::vector<std::byte> read(std::size_t count);
  /// Reads until the peer closes and returns how many bytes came.
  std::size_t read_to_end();
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// Listens on a free port of 127.0.0.1 without any protocol.
class RawListener {
 public:
  RawListener();
  ~RawListener();
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;
  [[nodiscard]] Address address() const { return address_; }
  RawSocket accept() const;

 private:
  int descriptor_;
  Address address_;
};

}  // namespace zerolock::test
