#include "actors/membership.hpp"

#include "actors/deadlines.hpp"
#include "actors/failure.hpp"

namespace zerolock {
namespace {

class Membership final : public MembershipActor::base {
 public:
  Membership(caf::actor_config& config, caf::actor_addr parent, const std::string& version)
      : MembershipActor::base(config), core_(version, deadlines.lease) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "membership"; }

  behavior_type make_behavior() override {
    return {[this](join_member_atom, const ExecutorCard& card) -> std::string {
              const Admission admission = core_.join(card, now());
              return admission == Admission::accepted ? ""
                                                      : "executor " + card.name + " " + describe(admission);
            },
            [this](beat_atom, const std::string& member, std::uint64_t placement) {
              // A beat from an earlier life changes nothing; that life learns of its end when it next asks to
              // join.
              static_cast<void>(core_.beat(member, placement, now()));
            },
            [this](leave_atom, const std::string& member, std::uint64_t placement) {
              core_.leave(member, placement);
            },
            [this](members_atom) { return core_.members(); }};
  }

 private:
  [[nodiscard]] std::chrono::nanoseconds now() const { return clock().now().time_since_epoch(); }

  MembershipCore core_;
};

}  // namespace

MembershipActor spawn_membership(caf::local_actor& parent, const std::string& version) {
  return parent.spawn<Membership, caf::monitored>(parent.address(), version);
}

}  // namespace zerolock
