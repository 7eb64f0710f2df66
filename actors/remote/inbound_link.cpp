#include "actors/remote/inbound_link.hpp"

#include <string>
#include <utility>

#include "actors/core/reconnect_policy.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/remote/connection_events.hpp"
#include "transport/tensor_payload.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {
namespace {

using Type = MovableInboundLinkActor::extend<caf::reacts_to<tick_atom>,
                                             caf::reacts_to<frame_atom, std::uint64_t, ReceivedFrame>,
                                             caf::reacts_to<closed_atom, std::uint64_t, std::string>,
                                             caf::reacts_to<dialled_atom, std::uint64_t, DialOutcome>>;

class InboundLink final : public Type::base {
 public:
  InboundLink(caf::actor_config& config, caf::actor_addr parent, InboundLinkSetup setup)
      : Type::base(config), setup_(std::move(setup)), session_(setup_.first_session) {
    contain_failures(this);
    live_under(this, parent);
    setup_.dial.connection = with_link(downstream_options(setup_.terms));
    setup_.dial.connection.allocate = accounted_payloads(*setup_.account);
  }

  [[nodiscard]] const char* name() const override { return "inbound link"; }

  behavior_type make_behavior() override {
    lost_since_ = clock().now();
    if (setup_.upstream_known) dial();
    return {[this](connect_atom, const HiddenStateBufferActor& downstream) {
              downstream_ = downstream;
              begin_session();
            },
            [this](hello_atom, const BoundaryHello& hello, const EntryReceiverActor& receiver) {
              if (hello.session != session_ || !connection_) return;
              receiver_ = receiver;
              transmit(opening_frame(hello));
            },
            [this](credit_atom, std::uint64_t session, const EntryCredit& credit) {
              if (session == session_ && connection_) transmit(credit_frame({session, credit}));
            },
            [this](moved_atom, const std::string& node, const std::string& address) { moved(node, address); },
            [this](tick_atom) {
              if (!connection_) dial();
            },
            [this](frame_atom, std::uint64_t number, const ReceivedFrame& received) {
              if (number == number_ && connection_) on_frame(*received.frame);
            },
            [this](closed_atom, std::uint64_t number, const std::string& cause) {
              if (number == number_) on_closed(cause);
            },
            [this](dialled_atom, std::uint64_t number, const DialOutcome& outcome) {
              if (number == number_) on_dialled(*outcome.result);
            }};
  }

  void on_exit() override {
    if (connection_) connection_->close("the stage has ended");
    connection_ = nullptr;
    downstream_ = nullptr;
    receiver_ = nullptr;
    setup_ = {};
  }

 private:
  [[nodiscard]] ConnectionOptions with_link(ConnectionOptions options) const {
    options.link = setup_.dial.connection.link;
    options.silence_limit = setup_.dial.connection.silence_limit;
    return options;
  }

  void dial() { dial_for(*setup_.network, setup_.dial, caf::actor_cast<DiallerActor>(this), ++number_); }

  void on_dialled(const DialResult& result) {
    if (const auto* failure = std::get_if<DialFailure>(&result)) {
      // Even a wrong identity may only mean that the stage before is about to move elsewhere.
      try_again(failure->reason);
      return;
    }
    connection_ = std::get<Dialled>(result).connection;
    if (setup_.terms.faults) setup_.terms.faults->watch(connection_);
    if (told_) setup_.note("connected again to " + connection_->peer_text());
    told_ = false;
    policy_.succeeded();
    start_for(*connection_, caf::actor_cast<ConnectionOwnerActor>(this), number_,
              setup_.terms.buffer_bytes_max + waiting_room);
    begin_session();
  }

  /// Whatever is still said there is of an earlier placement of the stage before.
  void moved(const std::string& node, const std::string& text) {
    const Address address = parse_address(text, "the upstream's address");
    const bool same = setup_.dial.peer.name == node && setup_.dial.address.text() == address.text();
    if (same && connection_) return;
    setup_.dial.peer = {NodeRole::executor, node};
    setup_.dial.address = address;
    if (connection_) connection_->close("the stage before has moved");
    connection_ = nullptr;
    receiver_ = nullptr;
    lost_since_ = clock().now();
    policy_.succeeded();
    dial();
  }

  void on_closed(const std::string& cause) {
    connection_ = nullptr;
    receiver_ = nullptr;
    lost_since_ = clock().now();
    try_again(cause);
  }

  void try_again(const std::string& cause) {
    if (clock().now() - lost_since_ > deadlines.boundary_absence) {
      quit(make_failure(Failure::permanent, "the stage before could not be reached for " +
                                                std::to_string(deadlines.boundary_absence.count() / 1000) +
                                                " s: " + cause));
      return;
    }
    // A first attempt may well come before the other side is ready.
    if (++attempts_failed_ == attempts_untold && !told_) {
      setup_.note("boundary " + std::to_string(setup_.boundary.value) + ": " + cause + "; trying again");
      told_ = true;
    }
    delayed_send(this, policy_.failed(), tick_atom::value);
  }

  /// Old entries that are still on their way belong to the session before.
  void begin_session() {
    attempts_failed_ = 0;
    receiver_ = nullptr;
    if (connection_ && downstream_) {
      send(downstream_, connect_atom::value, ++session_, UpstreamActor{caf::actor_cast<UpstreamActor>(this)});
    }
  }

  void on_frame(const Frame& frame) {
    try {
      if (frame.type == FrameType::entry) {
        const ReceivedEntry received = read_entry(frame, setup_.terms.limits);
        if (setup_.terms.watch) {
          setup_.terms.watch({TrafficItem::Kind::entry, setup_.boundary, received.entry.position,
                              frame.payload.size(), frame.wire_bytes()});
        }
        if (received.session == session_ && receiver_) {
          send(receiver_, entry_atom::value, received.session, received.entry);
        }
      } else if (receiver_) {
        const BlockedEntry blocked = read_blocked(frame);
        send(receiver_, blocked_atom::value, blocked.position, blocked.bytes);
      }
    } catch (const WireError& error) {
      connection_->close(error.what());
    }
  }

  /// Credit and openings are few and small: a queue that is full of them leads nowhere.
  void transmit(Frame frame) {
    if (!connection_->send(std::move(frame))) connection_->close("the upstream takes nothing");
  }

  static constexpr std::size_t waiting_room = std::size_t{1} << 20;
  static constexpr int attempts_untold = 4;

  InboundLinkSetup setup_;
  std::uint64_t session_;
  std::uint64_t number_ = 0;  // of the connection, or of the attempt at one
  ReconnectPolicy policy_{deadlines.redial_first, deadlines.redial_longest};
  caf::actor_clock::time_point lost_since_;
  int attempts_failed_ = 0;
  bool told_ = false;
  std::shared_ptr<Connection> connection_;
  HiddenStateBufferActor downstream_;
  EntryReceiverActor receiver_;  // of the present session, once it is open
};

}  // namespace

MovableInboundLinkActor spawn_inbound_link(caf::local_actor& parent, InboundLinkSetup setup) {
  return parent.spawn<InboundLink, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
