#pragma once
/// The dialling side: looks the name up, connects, greets.

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/event_loop.hpp"
#include "transport/greeting.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// One attempt, on the loop's thread. Calls `done` exactly once.
class Dialler : public LoopMember, public std::enable_shared_from_this<Dialler> {
 public:
  Dialler(std::shared_ptr<EventLoop> loop, DialOptions options, std::function<void(DialResult)> done);

  void start();
  void shut_down() override;

 private:
  void look_up();
  void connect(std::vector<asio::ip::tcp::endpoint> endpoints);
  void greet();
  void greeted(GreetingEnd end);
  void welcomed(std::unique_ptr<SocketChannel> channel, const Frame& frame);
  void fail(DialFailure::Kind kind, const std::string& reason);
  void finish(DialResult result);

  const std::shared_ptr<EventLoop> loop_;
  DialOptions options_;
  std::function<void(DialResult)> done_;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point deadline_;
  std::shared_ptr<Greeting> greeting_;
};

}  // namespace zerolock
