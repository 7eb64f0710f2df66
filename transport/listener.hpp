#pragma once
/// The listening side: accepts sockets, greets them, asks the owner.

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <string>

#include "transport/event_loop.hpp"
#include "transport/greeting.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// On the loop's thread, but for make_listener() and the handle.
class SocketListener : public LoopMember, public std::enable_shared_from_this<SocketListener> {
 public:
  SocketListener(std::shared_ptr<EventLoop> loop, asio::ip::tcp::acceptor acceptor, ListenOptions options,
                 ListenEvents events);

  void start();
  void shut_down() override;

 private:
  void accept();
  void greet(asio::ip::tcp::socket socket);
  void greeted(const std::string& remote, GreetingEnd end);
  /// Empty if the hello may go to the owner.
  [[nodiscard]] std::string objection_to(const Hello& hello, const ByteStream& stream) const;
  void answer(std::unique_ptr<SocketChannel> channel, const Hello& hello, const Frame& frame);
  HelloAnswer owners_answer(const Hello& hello) const;
  void refuse(std::unique_ptr<SocketChannel> channel, const std::string& reason);
  void reject(const std::string& remote, const std::string& reason);

  const std::shared_ptr<EventLoop> loop_;
  asio::ip::tcp::acceptor acceptor_;
  const ListenOptions options_;
  ListenEvents events_;
  asio::steady_timer retry_timer_;
  std::list<std::shared_ptr<Greeting>> greetings_;  // oldest first
  std::chrono::steady_clock::time_point last_report_{};
  std::uint64_t unreported_ = 0;
};

/// Binds and listens. Throws InputError.
std::unique_ptr<Listener> make_listener(const std::shared_ptr<EventLoop>& loop, ListenOptions options,
                                        ListenEvents events);

}  // namespace zerolock
