#include "actors/agent.hpp"

#include "actors/deadlines.hpp"
#include "actors/failure.hpp"

namespace zerolock {
namespace {

class Agent final : public AgentActor::base {
 public:
  Agent(caf::actor_config& config, caf::actor_addr parent, ExecutorCard card, MembershipActor membership)
      : AgentActor::base(config), card_(std::move(card)), membership_(std::move(membership)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "agent"; }

  behavior_type make_behavior() override {
    return {[this](start_atom) { join(); },
            [this](tick_atom) {
              send(membership_, beat_atom::value, card_.name, card_.placement);
              delayed_send(this, deadlines.beat_interval, tick_atom::value);
            }};
  }

  void on_exit() override {
    if (joined_) send(membership_, leave_atom::value, card_.name, card_.placement);
    membership_ = nullptr;
  }

 private:
  void join() {
    request(membership_, deadlines.join, join_member_atom::value, card_)
        .then(
            [this](const std::string& refusal) {
              if (!refusal.empty()) {
                quit(make_failure(Failure::permanent, refusal));
                return;
              }
              joined_ = true;
              delayed_send(this, deadlines.beat_interval, tick_atom::value);
            },
            [this](caf::error& error) {
              quit(make_failure(Failure::transient, "membership did not answer because " + cause_of(error)));
            });
  }

  ExecutorCard card_;
  MembershipActor membership_;
  bool joined_ = false;
};

}  // namespace

AgentActor spawn_agent(caf::local_actor& parent, const ExecutorCard& card,
                       const MembershipActor& membership) {
  auto agent = parent.spawn<Agent, caf::monitored>(parent.address(), card, membership);
  caf::anon_send(agent, start_atom::value);
  return agent;
}

}  // namespace zerolock
