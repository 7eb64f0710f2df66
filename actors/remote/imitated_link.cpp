#include "actors/remote/imitated_link.hpp"

#include <utility>

#include "actors/failure.hpp"

namespace zerolock {
namespace {

class ImitatedLink final : public ImitatedLinkActor::base {
 public:
  ImitatedLink(caf::actor_config& config, caf::actor_addr parent, ImitatedLinkSetup setup)
      : ImitatedLinkActor::base(config), setup_(std::move(setup)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "imitated link"; }

  behavior_type make_behavior() override {
    return {[this](hello_atom, const BoundaryHello& hello, const EntryReceiverActor& receiver) {
              session_ = hello.session;
              receiver_ = receiver;
              send(upstream_, hello_atom::value, hello,
                   EntryReceiverActor{caf::actor_cast<EntryReceiverActor>(this)});
            },
            [this](credit_atom, std::uint64_t session, const EntryCredit& credit) {
              if (session != session_) return;
              scheduled_send(upstream_, now() + setup_.profile.latency, credit_atom::value, session, credit);
            },
            [this](connect_atom, const UpstreamActor& upstream) { upstream_ = upstream; },
            [this](entry_atom, std::uint64_t session, const Entry& entry) {
              if (session != session_) return;
              const auto arrival = setup_.queues.hidden_states->transmit(now(), weight(entry.payload));
              scheduled_send(receiver_, arrival, entry_atom::value, session, entry);
            },
            [this](blocked_atom, const BatchPosition& position, std::uint64_t bytes) {
              scheduled_send(receiver_, now() + setup_.profile.latency, blocked_atom::value, position, bytes);
            },
            [this](gradient_atom, const OutputGradient& gradient) {
              const auto arrival = setup_.queues.gradients->transmit(now(), weight(gradient.gradient));
              scheduled_send(caf::actor_cast<GradientReceiverActor>(upstream_), arrival, gradient_atom::value,
                             gradient);
            }};
  }

  void on_exit() override {
    upstream_ = nullptr;
    receiver_ = nullptr;
    setup_ = {};
  }

 private:
  [[nodiscard]] LinkQueue::TimePoint now() { return clock().now(); }

  [[nodiscard]] std::size_t weight(const at::Tensor& payload) const {
    if (setup_.payload_bytes) return *setup_.payload_bytes;
    return payload.defined() ? payload.nbytes() : 0;
  }

  ImitatedLinkSetup setup_;
  UpstreamActor upstream_;
  EntryReceiverActor receiver_;  // the downstream
  std::uint64_t session_ = 0;
};

}  // namespace

std::string_view to_string(LinkSharing sharing) {
  switch (sharing) {
    case LinkSharing::way:
      return "per-way";
    case LinkSharing::stage:
      return "per-stage";
    case LinkSharing::both:
      return "half-duplex";
  }
  return "unknown";
}

LinkQueue::TimePoint LinkQueue::transmit(TimePoint ready, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return schedule_.transmit(ready, bytes);
}

std::vector<BoundaryQueues> boundary_queues(const LinkProfile& profile, LinkSharing sharing,
                                            std::uint64_t stages) {
  const auto queue = [&] { return std::make_shared<LinkQueue>(profile); };
  std::vector<BoundaryQueues> queues;
  // Of the stage behind the boundary at hand: what it sends on shares what it sends back.
  std::shared_ptr<LinkQueue> sender = queue();
  for (std::uint64_t boundary = 1; boundary < stages; ++boundary) {
    BoundaryQueues both{sharing == LinkSharing::stage ? sender : queue(), nullptr};
    both.gradients = sharing == LinkSharing::both ? both.hidden_states : queue();
    sender = both.gradients;
    queues.push_back(std::move(both));
  }
  return queues;
}

ImitatedLinkActor spawn_imitated_link(caf::local_actor& parent, ImitatedLinkSetup setup) {
  return parent.spawn<ImitatedLink, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
