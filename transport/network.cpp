#include "transport/network.hpp"

#include <utility>

#include "transport/dialler.hpp"
#include "transport/event_loop.hpp"
#include "transport/listener.hpp"

namespace zerolock {

class Network::Implementation {
 public:
  std::shared_ptr<EventLoop> loop = std::make_shared<EventLoop>();
};

Network::Network() : implementation_(std::make_unique<Implementation>()) {}

Network::~Network() {
  implementation_->loop->end();
}

std::unique_ptr<Listener> Network::listen(ListenOptions options, ListenEvents events) {
  return make_listener(implementation_->loop, std::move(options), std::move(events));
}

void Network::dial(DialOptions options, std::function<void(DialResult)> done) {
  auto dialler = std::make_shared<Dialler>(implementation_->loop, std::move(options), std::move(done));
  if (!implementation_->loop->post([dialler] { dialler->start(); })) dialler->shut_down();
}

}  // namespace zerolock
