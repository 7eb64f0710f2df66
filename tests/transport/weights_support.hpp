#pragma once
/// A coordinator that gives a model's parts and whose answers a test can change, and what a fetch should
/// bring.

#include <ATen/ATen.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensors/base/error.hpp"
#include "tests/tensors/partial_model_support.hpp"
#include "tests/transport/network_support.hpp"
#include "transport/weights/model_fetch.hpp"
#include "transport/weights/weights_server.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock::test {

/// Sees every answer before it is sent and may change it, or send others. False closes the connection
/// instead. `number` counts the answers of a connection from 0. Called in the server's thread.
using Tap = std::function<bool(Connection& connection, std::size_t number, Frame& answer)>;

class TappedConnection : public Connection {
 public:
  TappedConnection(std::shared_ptr<Connection> inner, Tap tap)
      : inner_(std::move(inner)), tap_(std::move(tap)) {}

  void start(ConnectionEvents events) override { inner_->start(std::move(events)); }
  bool send(Frame frame) override {
    if (tap_(*inner_, sent_++, frame)) return inner_->send(std::move(frame));
    inner_->close("cut by the test");
    return false;
  }
  void close(std::string reason) override { inner_->close(std::move(reason)); }
  void abort(std::string cause) override { inner_->abort(std::move(cause)); }
  [[nodiscard]] const NodeIdentity& peer() const override { return inner_->peer(); }
  [[nodiscard]] std::string peer_text() const override { return inner_->peer_text(); }
  [[nodiscard]] ConnectionCounters counters() const override { return inner_->counters(); }
  [[nodiscard]] std::size_t queued_bytes() const override { return inner_->queued_bytes(); }

 private:
  const std::shared_ptr<Connection> inner_;
  const Tap tap_;
  std::size_t sent_ = 0;
};

/// A coordinator that gives a model's parts.
class Giver {
 public:
  struct Settings {
    Security security = Security::plain();
    std::string token = "token";
    std::uint16_t port = 0;
    std::size_t send_queue_bytes = 0;  // 0: what the server wants
    Tap tap = [](Connection&, std::size_t, Frame&) { return true; };
  };

  Giver(std::shared_ptr<const ModelFiles> model, Settings settings)
      : server_(std::make_unique<WeightsServer>(std::move(model))), network_(std::make_unique<Network>()) {
    ListenOptions options;
    options.address = {"127.0.0.1", settings.port};
    options.security = settings.security;
    options.welcome = {{NodeRole::coordinator, "coordinator"}, "0.1.0", "run-7"};
    options.token = settings.token;
    options.hello_limit = std::chrono::seconds(60);
    ListenEvents events;
    events.hello = [this, queue = settings.send_queue_bytes](const Hello& hello) -> HelloAnswer {
      if (hello.purpose != ConnectionPurpose::weights) return Refusal{"only weights are given here"};
      ConnectionOptions connection = server_->options();
      connection.silence_limit = std::nullopt;  // a machine under load must not fail these tests
      if (queue > 0) connection.send_queue_bytes = queue;
      return HelloAccepted{connection};
    };
    events.accepted = [this, tap = settings.tap](std::shared_ptr<Connection> connection, const Hello&) {
      ++accepted_;
      server_->serve(std::make_shared<TappedConnection>(std::move(connection), tap));
    };
    listener_ = network_->listen(std::move(options), std::move(events));
  }
  explicit Giver(std::shared_ptr<const ModelFiles> model) : Giver(std::move(model), Settings{}) {}

  [[nodiscard]] const Address& address() const { return listener_->address(); }
  [[nodiscard]] std::size_t accepted() const { return accepted_; }
  void close_network() {
    listener_.reset();
    network_.reset();
  }
  void close_server() { server_.reset(); }

 private:
  std::atomic<std::size_t> accepted_{0};
  std::unique_ptr<WeightsServer> server_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Listener> listener_;
};

inline Giver::Settings tapped(Tap tap) {
  Giver::Settings settings;
  settings.tap = std::move(tap);
  return settings;
}

inline DialOptions weights_dial(const Address& address) {
  DialOptions options = dial_options(address);
  options.hello.purpose = ConnectionPurpose::weights;
  options.connection.bounds = FrameBounds().allow(FrameType::part, 1024, std::uint64_t{64} << 20U);
  return options;
}

/// Of the whole model, unless changed.
inline ModelFetchOptions fetch_options(const Address& address, const TemporaryFolder& cache) {
  ModelFetchOptions options;
  options.dial = weights_dial(address);
  options.layers = {{0, 6}};
  options.embeds = true;
  options.cache = cache.path();
  options.first_wait = std::chrono::milliseconds(1);
  options.longest_wait = std::chrono::milliseconds(5);
  return options;
}

/// Its message; the fetch must fail.
inline std::string fetch_error(const ModelFetchOptions& options) {
  Network network;
  try {
    fetch_model(network, options, {});
  } catch (const RunError& error) {
    return error.what();
  }
  return "fetched";
}

/// The tensors of `wanted` and no others, with the served bits.
inline void require_tensors(const ModelFiles& model, const ServedModel& served,
                            const std::vector<std::string>& wanted) {
  REQUIRE(model.names() == wanted);
  REQUIRE(model.content_hash() == served.files->content_hash());
  for (const std::string& name : wanted) {
    INFO(name);
    REQUIRE(model.tensor(name).expand().equal(served.files->tensor(name).expand()));
  }
}

inline void require_whole(const std::shared_ptr<const ModelFiles>& model, const ServedModel& served) {
  REQUIRE(model);
  std::vector<std::string> names = served.files->names();
  if (served.files->config().tied_embeddings) std::erase(names, "lm_head.weight");
  require_tensors(*model, served, names);
}

}  // namespace zerolock::test
