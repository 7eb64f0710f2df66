#include "transport/listener.hpp"

#include <exception>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/socket_connection.hpp"

namespace zerolock {

namespace {

using asio::ip::tcp;

/// When the system has no socket left, it may have one a little later.
constexpr std::chrono::milliseconds accept_retry{100};
constexpr std::chrono::milliseconds report_interval{200};

tcp::endpoint resolve_to_listen(EventLoop& loop, const Address& address) {
  asio::error_code error;
  const asio::ip::address number = asio::ip::make_address(address.host, error);
  if (!error) return {number, address.port};
  tcp::resolver resolver(loop.context());
  const auto found = resolver.resolve(address.host, std::to_string(address.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) throw InputError(address.text(), "unknown host: " + error.message());
  return found.begin()->endpoint();
}

tcp::acceptor make_acceptor(EventLoop& loop, const Address& address, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(loop.context());
  asio::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    throw InputError(address.text(), "the port is in use by another program");
  }
  if (error == asio::error::access_denied) {
    throw InputError(address.text(), "this user may not listen on that port");
  }
  if (error == asio::error_code(EADDRNOTAVAIL, asio::error::get_system_category())) {
    throw InputError(address.text(), "is not an address of this machine");
  }
  if (error) throw InputError(address.text(), "cannot listen: " + error.message());
  return acceptor;
}

class ListenerHandle : public Listener {
 public:
  ListenerHandle(std::shared_ptr<EventLoop> loop, std::shared_ptr<SocketListener> listener, Address address)
      : loop_(std::move(loop)), listener_(std::move(listener)), address_(std::move(address)) {}
  ~ListenerHandle() override {
    loop_->post([listener = listener_] { listener->shut_down(); });
  }
  ListenerHandle(const ListenerHandle&) = delete;
  ListenerHandle& operator=(const ListenerHandle&) = delete;

  [[nodiscard]] const Address& address() const override { return address_; }

 private:
  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<SocketListener> listener_;
  const Address address_;
};

}  // namespace

std::unique_ptr<Listener> make_listener(const std::shared_ptr<EventLoop>& loop, ListenOptions options,
                                        ListenEvents events) {
  const tcp::endpoint endpoint = resolve_to_listen(*loop, options.address);
  if (!options.security.is_tls()) {
    const bool anywhere = options.security.plain_reach() == Security::PlainReach::anywhere;
    if (!anywhere && !endpoint.address().is_loopback()) {
      throw InputError(options.address.text(),
                       "only loopback addresses can be listened on without TLS (--tls DIR, or --insecure)");
    }
    ZEROLOCK_INVARIANT(!options.token.empty(), "without TLS a listener asks for a token");
  }
  tcp::acceptor acceptor = make_acceptor(*loop, options.address, endpoint);
  Address address = options.address;
  address.port = acceptor.local_endpoint().port();
  auto listener =
      std::make_shared<SocketListener>(loop, std::move(acceptor), std::move(options), std::move(events));
  loop->post([listener] { listener->start(); });
  return std::make_unique<ListenerHandle>(loop, std::move(listener), std::move(address));
}

SocketListener::SocketListener(std::shared_ptr<EventLoop> loop, tcp::acceptor acceptor, ListenOptions options,
                               ListenEvents events)
    : loop_(std::move(loop)),
      acceptor_(std::move(acceptor)),
      options_(std::move(options)),
      events_(std::move(events)),
      retry_timer_(loop_->context()) {}

void SocketListener::start() {
  loop_->add(shared_from_this());
  accept();
}

void SocketListener::shut_down() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  retry_timer_.cancel();
  // A greeting that ends takes itself out of the list.
  const std::list<std::shared_ptr<Greeting>> greetings = greetings_;
  for (const std::shared_ptr<Greeting>& greeting : greetings) greeting->shut_down();
  // The owner may hold this listener's handle in its events.
  events_ = {};
}

void SocketListener::accept() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_accept([self = shared_from_this()](asio::error_code error, tcp::socket socket) {
    if (!self->acceptor_.is_open()) return;
    if (!error) {
      self->greet(std::move(socket));
      return self->accept();
    }
    self->retry_timer_.expires_after(accept_retry);
    self->retry_timer_.async_wait([self](asio::error_code cancelled) {
      if (!cancelled) self->accept();
    });
  });
}

void SocketListener::greet(tcp::socket socket) {
  if (greetings_.size() >= options_.unknown_peers_max) {
    const std::shared_ptr<Greeting> oldest = greetings_.front();
    oldest->give_up("it said nothing while others came");
  }
  try {
    auto channel =
        std::make_unique<SocketChannel>(loop_, std::move(socket), options_.security, StreamSide::listener);
    greetings_.emplace_back();
    const auto place = std::prev(greetings_.end());
    const auto check_certificate =
        [tls = options_.security.is_tls()](const std::optional<NodeIdentity>& node) -> std::string {
      return tls && !node ? "the peer's certificate names no role and node" : "";
    };
    const std::string remote = channel->remote;
    *place = std::make_shared<Greeting>(std::move(channel), std::nullopt, check_certificate,
                                        [self = shared_from_this(), place, remote](GreetingEnd end) {
                                          // Keeps the greeting until it has returned.
                                          const std::shared_ptr<Greeting> greeting = *place;
                                          self->greetings_.erase(place);
                                          self->greeted(remote, std::move(end));
                                        });
    const std::shared_ptr<Greeting> greeting = *place;
    greeting->start(Greeting::Clock::now() + options_.hello_limit);
  } catch (const std::exception& error) {
    reject("somebody", error.what());
  }
}

void SocketListener::greeted(const std::string& remote, GreetingEnd end) {
  if (end.failure) {
    if (end.other_version) refuse(std::move(end.channel), end.failure->reason);
    return reject(remote, end.failure->reason);
  }
  try {
    const Hello hello = read_hello(end.frame.metadata);
    const std::string objection = objection_to(hello, *end.channel->stream);
    if (objection.empty()) return answer(std::move(end.channel), hello, end.frame);
    refuse(std::move(end.channel), objection);
    reject(remote, objection);
  } catch (const WireError& error) {
    reject(remote, error.what());
  }
}

std::string SocketListener::objection_to(const Hello& hello, const ByteStream& stream) const {
  if (!options_.token.empty() && !same_secret(hello.token, options_.token)) {
    return "the token is not this run's";
  }
  const std::optional<NodeIdentity> certified = stream.certified_peer();
  if (certified && *certified != hello.node) {
    return "the certificate is that of " + to_string(*certified) + ", not of " + to_string(hello.node);
  }
  return {};
}

HelloAnswer SocketListener::owners_answer(const Hello& hello) const {
  if (!events_.hello) return Refusal{"the listener closes"};
  try {
    return events_.hello(hello);
  } catch (const std::exception& error) {
    return Refusal{error.what()};
  }
}

void SocketListener::answer(std::unique_ptr<SocketChannel> channel, const Hello& hello, const Frame& frame) {
  HelloAnswer said = owners_answer(hello);
  if (const auto* refusal = std::get_if<Refusal>(&said)) {
    const std::string remote = channel->remote;
    refuse(std::move(channel), refusal->reason);
    return reject(remote, refusal->reason);
  }
  auto connection = std::make_shared<SocketConnection>(std::move(channel), hello.node,
                                                       std::move(std::get<HelloAccepted>(said).options));
  connection->counters().count_received(frame);
  connection->open(Frame{FrameType::welcome, to_wire(options_.welcome), {}});
  try {
    const auto accepted = events_.accepted;
    if (accepted) accepted(make_connection_handle(std::move(connection)), hello);
  } catch (const std::exception& error) {
    reject(to_string(hello.node), error.what());
  }
}

void SocketListener::refuse(std::unique_ptr<SocketChannel> channel, const std::string& reason) {
  constexpr std::size_t reason_bytes_max = 1000;
  const Refusal refusal{reason.substr(0, reason_bytes_max)};
  auto connection =
      std::make_shared<SocketConnection>(std::move(channel), NodeIdentity{}, ConnectionOptions{});
  connection->refuse({FrameType::refuse, to_wire(refusal), {}});
}

void SocketListener::reject(const std::string& remote, const std::string& reason) {
  if (!events_.rejected) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_report_ < report_interval) {
    ++unreported_;
    return;
  }
  last_report_ = now;
  const std::uint64_t others = std::exchange(unreported_, 0);
  const auto rejected = events_.rejected;
  rejected(remote + " was turned away: " + reason +
           (others > 0 ? " (and " + std::to_string(others) + " others before)" : ""));
}

}  // namespace zerolock
