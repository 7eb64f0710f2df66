#include "actors/checkpoint_keeper.hpp"

#include "actors/checkpoint_files.hpp"
#include "actors/failure.hpp"
#include "actors/fault_call.hpp"

namespace zerolock {
namespace {

class CheckpointKeeper final : public CheckpointKeeperActor::base {
 public:
  CheckpointKeeper(caf::actor_config& config, caf::actor_addr parent, CheckpointKeeperSetup setup)
      : CheckpointKeeperActor::base(config), setup_(std::move(setup)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "checkpoint keeper"; }

  behavior_type make_behavior() override {
    if (setup_.new_run) discard_checkpoints_after(setup_.root, setup_.stage, setup_.oldest);
    return {[this](save_atom, Incarnation incarnation, const SharedState& shared) {
              save(incarnation, *shared.state);
            },
            [this](restore_atom, WindowIndex at_most) { return restore(at_most); },
            [this](line_atom, WindowIndex line) { retire_checkpoints(setup_.root, setup_.stage, line); }};
  }

  void on_exit() override {
    setup_.owner = nullptr;
    setup_.recorder = nullptr;
  }

 private:
  [[nodiscard]] std::chrono::nanoseconds now() const {
    return std::chrono::steady_clock::now() - setup_.run_start;
  }

  void save(Incarnation incarnation, const StageState& state) {
    const BatchPosition position{state.window, 0};
    const auto reached = [&](FaultPoint point) {
      pass_fault_point(this, setup_.fault, point, setup_.stage, incarnation, position);
    };
    TraceSpan span{TraceSpan::Kind::checkpoint, setup_.stage, incarnation, position, now(), {}};
    write_checkpoint(setup_.root, setup_.stage, state, reached);
    span.end = now();
    reached(FaultPoint::durable_ack);
    send(setup_.owner, durable_atom::value, state.window);
    send(setup_.recorder, spans_atom::value, std::vector<TraceSpan>{span});
  }

  caf::result<RestoredState> restore(WindowIndex at_most) {
    RestoredCheckpoint found = restore_newest_checkpoint(setup_.root, setup_.stage, at_most);
    if (!found.state || found.state->window < setup_.oldest) {
      std::string problems;
      for (const std::string& problem : found.problems) problems += "; " + problem;
      return make_failure(Failure::permanent, "it has no good checkpoint up to window " +
                                                  std::to_string(at_most.value) + problems);
    }
    return RestoredState{{std::make_shared<const StageState>(std::move(*found.state))}, true, found.problems};
  }

  CheckpointKeeperSetup setup_;
};

}  // namespace

CheckpointKeeperActor spawn_checkpoint_keeper(caf::local_actor& parent, const CheckpointKeeperSetup& setup) {
  if (!setup.own_thread) return parent.spawn<CheckpointKeeper, caf::monitored>(parent.address(), setup);
  return parent.spawn<CheckpointKeeper, caf::monitored + caf::detached>(parent.address(), setup);
}

}  // namespace zerolock
