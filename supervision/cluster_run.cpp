#include "supervision/cluster_run.hpp"

#include <utility>

#include "actors/checkpoint_files.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/protocol.hpp"
#include "supervision/actor_system.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

void check(const ClusterPlan& plan) {
  ZEROLOCK_INVARIANT(plan.stages > 0, "a run has stages");
  ZEROLOCK_INVARIANT(plan.first_window.value > 0, "training windows count from 1");
  ZEROLOCK_INVARIANT(plan.depth > 0 && plan.buffer_bytes_max > 0 && plan.checkpoint_every > 0,
                     "bounds are positive");
  ZEROLOCK_INVARIANT(!plan.calibrate || gradient_reach(plan.schedule) == GradientReach::stage,
                     "only stages with losses of their own are calibrated");
  ZEROLOCK_INVARIANT(plan.resume_from.empty() || plan.resume_from.size() == plan.stages,
                     "a state for each stage, or none");
  for (const StageState& state : plan.resume_from) {
    ZEROLOCK_INVARIANT(state.window.next() == plan.first_window,
                       "resumed states are of the window before the first");
  }
}

/// Windows beyond the slowest stage that keep all stages busy: a micro-batch for each stage and one more, in
/// whole windows, and the window that is being worked on.
std::uint64_t ahead_windows(const ClusterPlan& plan, const MicroBatchProvider& batches) {
  if (plan.ahead_windows > 0) return plan.ahead_windows;
  if (plan.last_window < plan.first_window) return 1;
  // Its first stage forwards as many micro-batches ahead as there are stages, however small windows are.
  if (plan.schedule == TrainingSchedule::pipedream) return plan.stages + 1;
  const std::uint64_t micro_batches = batches.micro_batches(plan.first_window);
  return (plan.stages + micro_batches) / micro_batches + 1;
}

std::string describe(const StageRestart& restart) {
  const std::string from =
      restart.window ? "from window " + std::to_string(restart.window->value) : "its calibration";
  return "stage " + std::to_string(restart.stage.value) + " restarted " + from + " (incarnation " +
         to_string(restart.incarnation) + "): " + restart.cause;
}

CoordinatorSetup set_up(const ClusterPlan& plan, const std::shared_ptr<const MicroBatchProvider>& batches,
                        MemoryAccount& source_account, const std::function<bool()>& stop_requested,
                        const ClusterObserver& observer, SpawnExecutors spawn_executors) {
  CoordinatorSetup setup;
  setup.session = plan.session.empty() ? plan.run_id : plan.session;
  setup.journal = plan.journal;
  setup.recovers = plan.recovers;
  setup.version = program_version;
  const std::uint64_t ahead = ahead_windows(plan, *batches);
  setup.schedule = {plan.stages, plan.first_window, plan.last_window, plan.checkpoint_every + ahead,
                    ahead,       calibrates(plan)};
  setup.stop_requested = stop_requested ? stop_requested : [] { return false; };
  setup.sinks = {observer.window_committed, observer.calibrated, observer.span,
                 [observer](const StageRestart& restart) {
                   observer.restarted(restart.stage, restart.incarnation, describe(restart));
                 }};
  setup.batches = batches;
  setup.source_account = &source_account;
  setup.spawn_executors = std::move(spawn_executors);
  return setup;
}

/// Waits for the end, looking at the stop request in between: a run that trains one long window hears of it
/// too.
RunEnd await_end(caf::scoped_actor& self, const CoordinatorSupervisorActor& coordinator,
                 const std::function<bool()>& stop_requested) {
  RunEnd end;
  bool over = false;
  bool stop_sent = false;
  while (!over) {
    self->receive(
        [&](end_at_atom, const RunEnd& said) {
          end = said;
          over = true;
        },
        [&](const caf::down_msg& down) {
          end.failure = "the coordinator failed because " + cause_of(down.reason);
          over = true;
        },
        caf::after(deadlines.stop_poll) >>
            [&] {
              if (stop_sent || !stop_requested || !stop_requested()) return;
              stop_sent = true;
              self->send(coordinator, stop_atom::value);
            });
  }
  return end;
}

/// The actors of a run, and who speaks for the caller.
struct RunActors {
  ActorSystemConfig config;
  caf::actor_system system{config};
  caf::scoped_actor self{system};
};

ClusterOutcome outcome_of(const ClusterPlan& plan, const RunEnd& end) {
  ClusterOutcome outcome;
  outcome.failure = end.failure;
  outcome.bad_input = end.bad_input;
  const auto durable = common_durable_window(plan.checkpoints, plan.stages);
  outcome.durable = durable.value_or(WindowIndex{plan.first_window.value - 1});
  if (!end.finished) return outcome;
  outcome.kind = end.stopped && outcome.durable < plan.last_window ? ClusterOutcome::Kind::stopped
                                                                   : ClusterOutcome::Kind::finished;
  for (const StageSummary& stage : end.stages) {
    outcome.stages.push_back({stage.incarnation,
                              read_checkpoint(plan.checkpoints, stage.stage, outcome.durable),
                              stage.duplicates_dropped, stage.peaks, stage.process_bytes_peak});
  }
  return outcome;
}

}  // namespace

bool calibrates(const ClusterPlan& plan) {
  return plan.calibrate && plan.first_window.value == 1 && plan.resume_from.empty();
}

ClusterOutcome run_cluster(const ClusterPlan& plan, const std::shared_ptr<const MicroBatchProvider>& batches,
                           MemoryAccount& source_account, const std::function<bool()>& stop_requested,
                           const ClusterObserver& observer, SpawnExecutors spawn_executors,
                           const std::function<void()>& forget_executors,
                           const std::shared_ptr<const std::atomic<bool>>& hangs) {
  check(plan);
  ZEROLOCK_INVARIANT(!calibrates(plan) || batches->micro_batches(WindowIndex{0}) > 0,
                     "a run that calibrates has rows to do so");
  RunEnd end;
  bool left_behind = false;
  {
    auto actors = std::make_unique<RunActors>();
    caf::scoped_actor& self = actors->self;
    CoordinatorSetup setup =
        set_up(plan, batches, source_account, stop_requested, observer, std::move(spawn_executors));
    setup.owner = caf::actor_cast<caf::actor>(self);
    auto coordinator = spawn_coordinator_supervisor(*self.ptr(), std::move(setup));
    end = await_end(self, coordinator, stop_requested);
    coordinator = nullptr;
    forget_executors();
    // The coordinator speaks last; if it could not, its children follow it on their own.
    left_behind = hangs && hangs->load();
    if (left_behind) {
      static_cast<void>(actors.release());
    } else {
      self->await_all_other_actors_done();
    }
  }
  ClusterOutcome outcome = outcome_of(plan, end);
  outcome.hangs = left_behind;
  return outcome;
}

}  // namespace zerolock
