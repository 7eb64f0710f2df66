#include "actors/remote/outbound_link.hpp"

#include <utility>

#include "actors/failure.hpp"
#include "actors/remote/connection_events.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {
namespace {

using Type = OutboundLinkActor::extend<caf::reacts_to<frame_atom, std::uint64_t, ReceivedFrame>,
                                       caf::reacts_to<closed_atom, std::uint64_t, std::string>>;

class OutboundLink final : public Type::base {
 public:
  OutboundLink(caf::actor_config& config, caf::actor_addr parent, OutboundLinkSetup setup)
      : Type::base(config), parent_(parent), setup_(std::move(setup)) {
    contain_failures(this);
    monitor(parent_);
    monitor(setup_.upstream);
    set_down_handler([this](caf::down_msg& down) {
      end(down.source == parent_ ? "the run has ended here" : "the stage before is restarting");
    });
  }

  [[nodiscard]] const char* name() const override { return "outbound link"; }

  behavior_type make_behavior() override {
    if (setup_.terms.faults) setup_.terms.faults->watch(setup_.connection);
    start_for(*setup_.connection, caf::actor_cast<ConnectionOwnerActor>(this), 0, waiting_room);
    return {[this](entry_atom, std::uint64_t session, const Entry& entry) {
              Frame frame = entry_frame(session, entry, setup_.terms.wire_type);
              frame.damaged = setup_.terms.faults && setup_.terms.faults->take_damage();
              transmit(std::move(frame));
            },
            [this](blocked_atom, const BatchPosition& position, std::uint64_t bytes) {
              transmit(blocked_frame({position, bytes}));
            },
            [this](stop_atom) { end("another connection has taken this boundary over"); },
            [this](frame_atom, std::uint64_t, const ReceivedFrame& received) { on_frame(*received.frame); },
            [this](closed_atom, std::uint64_t, const std::string&) { quit(caf::exit_reason::normal); }};
  }

  void on_exit() override {
    if (setup_.connection) setup_.connection->close("the upstream has ended");
    setup_ = {};
  }

 private:
  void on_frame(const Frame& frame) {
    try {
      if (frame.type == FrameType::request) {
        send(setup_.upstream, hello_atom::value, read_opening(frame),
             EntryReceiverActor{caf::actor_cast<EntryReceiverActor>(this)});
      } else {
        const SessionCredit given = read_credit(frame);
        send(setup_.upstream, credit_atom::value, given.session, given.credit);
      }
    } catch (const WireError& error) {
      end(error.what());
    }
  }

  /// The upstream keeps what it sends until the recovery line has passed it, so nothing is lost here.
  void transmit(Frame frame) {
    if (!setup_.connection->send(std::move(frame))) end("the downstream takes nothing more");
  }

  void end(const std::string& reason) {
    setup_.connection->close(reason);
    quit(caf::exit_reason::normal);
  }

  static constexpr std::size_t waiting_room = std::size_t{1} << 20;

  caf::actor_addr parent_;
  OutboundLinkSetup setup_;
};

}  // namespace

OutboundLinkActor spawn_outbound_link(caf::local_actor& parent, OutboundLinkSetup setup) {
  return parent.spawn<OutboundLink, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
