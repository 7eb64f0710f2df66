#include "actors/remote/connection_events.hpp"

#include <atomic>
#include <utility>

namespace zerolock {
namespace {

/// Small frames cost memory too: each counts as so much at least.
constexpr std::size_t frame_bytes_least = 1024;

/// A frame whose bytes count for as long as anybody holds it.
std::shared_ptr<const Frame> counted(Frame frame, std::size_t bytes,
                                     const std::shared_ptr<std::atomic<std::size_t>>& waiting) {
  return {new Frame(std::move(frame)), [waiting, bytes](const Frame* held) {
            delete held;
            *waiting -= bytes;
          }};
}

template <class Handle>
Handle alive(const caf::actor_addr& address) {
  return caf::actor_cast<Handle>(address);
}

}  // namespace

void start_for(Connection& connection, const ConnectionOwnerActor& owner, std::uint64_t number,
               std::size_t waiting_bytes_max) {
  const caf::actor_addr address = owner.address();
  const auto waiting = std::make_shared<std::atomic<std::size_t>>(0);
  ConnectionEvents events;
  events.received = [address, number, waiting, waiting_bytes_max, &connection](Frame frame) {
    const std::size_t bytes = std::max(frame.wire_bytes(), frame_bytes_least);
    if ((*waiting += bytes) > waiting_bytes_max + frame_bytes_least) {
      *waiting -= bytes;
      connection.close("the peer sends more than it was allowed");
      return;
    }
    auto held = counted(std::move(frame), bytes, waiting);
    if (const auto handle = alive<ConnectionOwnerActor>(address)) {
      caf::anon_send(handle, frame_atom::value, number, ReceivedFrame{std::move(held)});
    }
  };
  events.closed = [address, number](std::string cause) {
    if (const auto handle = alive<ConnectionOwnerActor>(address)) {
      caf::anon_send(handle, closed_atom::value, number, std::move(cause));
    }
  };
  connection.start(std::move(events));
}

void dial_for(Network& network, DialOptions options, const DiallerActor& owner, std::uint64_t number) {
  const caf::actor_addr address = owner.address();
  network.dial(std::move(options), [address, number](DialResult result) {
    if (const auto handle = alive<DiallerActor>(address)) {
      caf::anon_send(handle, dialled_atom::value, number,
                     DialOutcome{std::make_shared<const DialResult>(std::move(result))});
    }
  });
}

}  // namespace zerolock
