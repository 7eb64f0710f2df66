#include "actors/targets_holder.hpp"

#include <map>

#include "actors/failure.hpp"

namespace zerolock {
namespace {

class TargetsHolder final : public TargetsHolderActor::base {
 public:
  TargetsHolder(caf::actor_config& config, caf::actor_addr parent) : TargetsHolderActor::base(config) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "targets holder"; }

  behavior_type make_behavior() override {
    return {[this](targets_atom, const CalibrationTargets& targets) { on_targets(targets); },
            [this](attach_atom, StageIndex stage, Incarnation life, const TargetsReceiverActor& worker) {
              on_attach(stage, life, worker);
            },
            [this](line_atom, WindowIndex) { release(); }};
  }

  void on_exit() override { release(); }

 private:
  struct Waiting {
    Incarnation life;
    TargetsReceiverActor worker;
  };

  /// The first word holds: a later life of the last stage makes the same again, or, on another kind of
  /// processor, nearly the same, and then all stages must still be fitted to one.
  void on_targets(const CalibrationTargets& targets) {
    if (released_ || targets_.rows.defined()) return;
    targets_ = targets;
    for (const auto& [stage, waiting] : waiting_) send(waiting.worker, targets_atom::value, targets_);
    waiting_.clear();
  }

  void on_attach(StageIndex stage, Incarnation life, const TargetsReceiverActor& worker) {
    if (released_) return;  // a life that has ended: every stage has its fit on disk
    if (targets_.rows.defined()) {
      send(worker, targets_atom::value, targets_);
      return;
    }
    Waiting& known = waiting_[stage];
    if (life >= known.life) known = {life, worker};
  }

  /// The recovery line begins with window 0: no stage will be calibrated again.
  void release() {
    released_ = true;
    targets_ = {};
    waiting_.clear();
  }

  CalibrationTargets targets_;  // undefined until they are handed over, and once they are released
  std::map<StageIndex, Waiting> waiting_;
  bool released_ = false;
};

}  // namespace

TargetsHolderActor spawn_targets_holder(caf::local_actor& parent) {
  return parent.spawn<TargetsHolder, caf::monitored>(parent.address());
}

}  // namespace zerolock
