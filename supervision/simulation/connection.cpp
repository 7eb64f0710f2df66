#include "supervision/simulation/connection.hpp"

#include <utility>

namespace zerolock::simulation {

ConnectionPointer Network::open(std::string name, Side first, Side second) {
  auto connection = std::make_shared<Connection>();
  connection->name_ = std::move(name);
  connection->ends_[0] = {first.host, std::move(first.life), std::move(first.on_closed), {}};
  connection->ends_[1] = {second.host, std::move(second.life), std::move(second.on_closed), {}};
  all_.push_back(connection);
  for (const std::size_t end : {std::size_t{0}, std::size_t{1}}) {
    // Who has asked may be gone by now: then nothing will ever be heard of it.
    if (connection->ends_[end].life.expired() && std::exchange(connection->open_, false)) {
      closed_for(connection, 1 - end, silence_limit_);
    }
  }
  return connection;
}

void Network::send(const ConnectionPointer& connection, std::size_t from, std::function<void()> act,
                   std::function<void()> damaged) {
  if (!connection->open_) return;
  const std::size_t to = 1 - from;
  Connection::End& receiver = connection->ends_[to];
  const bool hit = std::exchange(connection->damaged_[from], false);
  timeline_.along(connection->ends_[from].out, delay(), *receiver.host, receiver.life,
                  [this, connection, to, hit, act = std::move(act), damaged = std::move(damaged)] {
                    if (!connection->open_) return;
                    if (!hit) {
                      act();
                    } else if (damaged) {
                      log_.note("a damaged frame is read on the " + connection->name_);
                      damaged();
                    } else {
                      log_.note("a damaged frame ends the " + connection->name_);
                      close(connection, to);
                      closed_for(connection, to, Time{0});
                    }
                  });
}

void Network::close(const ConnectionPointer& connection, std::size_t by) {
  if (!std::exchange(connection->open_, false)) return;
  closed_for(connection, 1 - by, delay());
}

void Network::cut(const ConnectionPointer& connection) {
  if (!std::exchange(connection->open_, false)) return;
  closed_for(connection, 0, random_.between(Time{0}, silence_limit_));
  closed_for(connection, 1, random_.between(Time{0}, silence_limit_));
}

void Network::closed_for(const ConnectionPointer& connection, std::size_t end, Time delay) {
  Connection::End& hears = connection->ends_[end];
  timeline_.after(delay, *hears.host, hears.life, [connection, end] {
    if (const auto act = std::exchange(connection->ends_[end].on_closed, nullptr)) act(connection);
  });
}

void Network::host_paused(const Host& host) {
  for (const ConnectionPointer& connection : connections()) {
    for (std::size_t end : {std::size_t{0}, std::size_t{1}}) {
      if (connection->ends_[end].host != &host) continue;
      timeline_.after(silence_limit_, clock_, always_, [this, connection, end, &host, pause = host.pauses] {
        if (!host.paused || host.pauses != pause || !std::exchange(connection->open_, false)) return;
        closed_for(connection, 1 - end, Time{0});
        closed_for(connection, end, Time{0});
      });
    }
  }
}

void Network::host_gone(const Host& host, bool silent) {
  for (const ConnectionPointer& connection : connections()) {
    for (std::size_t end : {std::size_t{0}, std::size_t{1}}) {
      if (connection->ends_[end].host != &host || !std::exchange(connection->open_, false)) continue;
      closed_for(connection, 1 - end, silent ? silence_limit_ : delay());
    }
  }
}

void Network::cut_off(const Host& host) {
  for (const ConnectionPointer& connection : connections()) {
    if (connection->ends_[0].host == &host || connection->ends_[1].host == &host) cut(connection);
  }
}

std::vector<ConnectionPointer> Network::connections() {
  std::vector<ConnectionPointer> open;
  std::erase_if(all_, [&open](const std::weak_ptr<Connection>& weak) {
    const ConnectionPointer connection = weak.lock();
    if (!connection || !connection->open_) return true;
    open.push_back(connection);
    return false;
  });
  return open;
}

}  // namespace zerolock::simulation
