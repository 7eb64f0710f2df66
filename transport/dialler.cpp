#include "transport/dialler.hpp"

#include <asio/connect.hpp>
#include <exception>
#include <utility>

#include "transport/socket_connection.hpp"

namespace zerolock {

namespace {

using asio::ip::tcp;

std::string connect_text(const asio::error_code& error) {
  if (error == asio::error::connection_refused) return "nobody listens there";
  return error.message();
}

}  // namespace

Dialler::Dialler(std::shared_ptr<EventLoop> loop, DialOptions options, std::function<void(DialResult)> done)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      done_(std::move(done)),
      resolver_(loop_->context()),
      socket_(loop_->context()),
      timer_(loop_->context()) {}

void Dialler::start() {
  deadline_ = std::chrono::steady_clock::now() + options_.limit;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    // The greeting has the same deadline and better words.
    if (!error && !self->greeting_) self->fail(DialFailure::Kind::timed_out, "no connection in time");
  });
  loop_->add(shared_from_this());
  if (done_) look_up();
}

void Dialler::shut_down() {
  if (greeting_) return greeting_->shut_down();
  fail(DialFailure::Kind::cancelled, "the network closes");
}

void Dialler::look_up() {
  asio::error_code error;
  const asio::ip::address number = asio::ip::make_address(options_.address.host, error);
  // Numbers need no look-up, and no thread that might wait for one.
  if (!error) return connect({{number, options_.address.port}});
  resolver_.async_resolve(
      options_.address.host, std::to_string(options_.address.port), tcp::resolver::numeric_service,
      [self = shared_from_this()](asio::error_code failed, const tcp::resolver::results_type& found) {
        if (!self->done_) return;
        if (failed) return self->fail(DialFailure::Kind::unreachable, "unknown host: " + failed.message());
        std::vector<tcp::endpoint> endpoints;
        for (const auto& entry : found) endpoints.push_back(entry.endpoint());
        self->connect(std::move(endpoints));
      });
}

void Dialler::connect(std::vector<tcp::endpoint> endpoints) {
  const bool anywhere =
      options_.security.is_tls() || options_.security.plain_reach() == Security::PlainReach::anywhere;
  if (!anywhere) {
    std::erase_if(endpoints, [](const tcp::endpoint& each) { return !each.address().is_loopback(); });
    if (endpoints.empty()) {
      return fail(DialFailure::Kind::security,
                  "only loopback addresses can be reached without TLS (--tls DIR, or --insecure)");
    }
  }
  auto kept = std::make_shared<std::vector<tcp::endpoint>>(std::move(endpoints));
  asio::async_connect(socket_, *kept,
                      [self = shared_from_this(), kept](asio::error_code error, const tcp::endpoint&) {
                        if (!self->done_) return;
                        if (error == asio::error::connection_refused) {
                          return self->fail(DialFailure::Kind::nobody, connect_text(error));
                        }
                        if (error) return self->fail(DialFailure::Kind::unreachable, connect_text(error));
                        self->greet();
                      });
}

void Dialler::greet() {
  try {
    auto channel =
        std::make_unique<SocketChannel>(loop_, std::move(socket_), options_.security, StreamSide::dialler);
    // The token goes only to whom it is meant for.
    const auto check_peer = [tls = options_.security.is_tls(), expected = options_.peer](
                                const std::optional<NodeIdentity>& node) -> std::string {
      if (!tls) return {};
      return node ? expected.mismatch(*node) : "the peer's certificate names no role and node";
    };
    greeting_ = std::make_shared<Greeting>(
        std::move(channel), Frame{FrameType::hello, to_wire(options_.hello), {}}, check_peer,
        [self = shared_from_this()](GreetingEnd end) { self->greeted(std::move(end)); });
    const std::shared_ptr<Greeting> greeting = greeting_;
    greeting->start(deadline_);
  } catch (const std::exception& error) {
    fail(DialFailure::Kind::protocol, error.what());
  }
}

void Dialler::greeted(GreetingEnd end) {
  const std::shared_ptr<Greeting> greeting = std::move(greeting_);
  if (end.failure) return fail(end.failure->kind, end.failure->reason);
  try {
    if (end.frame.type == FrameType::refuse) {
      return fail(DialFailure::Kind::refused, read_refusal(end.frame.metadata).reason);
    }
    welcomed(std::move(end.channel), end.frame);
  } catch (const WireError& error) {
    fail(DialFailure::Kind::protocol, error.what());
  }
}

void Dialler::welcomed(std::unique_ptr<SocketChannel> channel, const Frame& frame) {
  Welcome welcome = read_welcome(frame.metadata);
  const std::optional<NodeIdentity> certified = channel->stream->certified_peer();
  if (certified && *certified != welcome.node) {
    return fail(DialFailure::Kind::security, "the certificate is that of " + to_string(*certified) +
                                                 ", not of " + to_string(welcome.node));
  }
  const std::string mismatch = options_.peer.mismatch(welcome.node);
  if (!mismatch.empty()) return fail(DialFailure::Kind::security, mismatch);
  auto connection =
      std::make_shared<SocketConnection>(std::move(channel), welcome.node, std::move(options_.connection));
  connection->counters().count_sent({FrameType::hello, to_wire(options_.hello), {}});
  connection->counters().count_received(frame);
  connection->open(std::nullopt);
  finish(Dialled{make_connection_handle(std::move(connection)), std::move(welcome)});
}

void Dialler::fail(DialFailure::Kind kind, const std::string& reason) {
  finish(DialFailure{kind, options_.address.text() + ": " + reason});
}

void Dialler::finish(DialResult result) {
  if (!done_) return;
  timer_.cancel();
  resolver_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  const auto done = std::exchange(done_, nullptr);
  try {
    done(std::move(result));
  } catch (const std::exception&) {
    // A connection that nobody took has closed with its handle.
  }
}

}  // namespace zerolock
