#include "supervision/local_cluster.hpp"

#include <thread>

#include "actors/checkpoint_files.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/protocol.hpp"
#include "supervision/coordinator_supervisor.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr const char* program_version = "0.1.0";

/// CAF's default scheduler polls, with pauses of up to 10 ms; the one with a shared queue wakes its threads.
struct SystemConfig : caf::actor_system_config {
  SystemConfig() {
    zerolock::add_message_types(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
  }
};

void check(const LocalClusterPlan& plan, std::size_t accounts) {
  ZEROLOCK_INVARIANT(plan.stages > 0 && accounts == plan.stages, "one account for each stage");
  ZEROLOCK_INVARIANT(plan.first_window.value > 0, "training windows count from 1");
  ZEROLOCK_INVARIANT(plan.depth > 0 && plan.buffer_bytes_max > 0 && plan.checkpoint_every > 0,
                     "bounds are positive");
  ZEROLOCK_INVARIANT(plan.resume_from.empty() || plan.resume_from.size() == plan.stages,
                     "a state for each stage, or none");
  for (const StageState& state : plan.resume_from) {
    ZEROLOCK_INVARIANT(state.window.next() == plan.first_window,
                       "resumed states are of the window before the first");
  }
}

bool calibrates(const LocalClusterPlan& plan) {
  return plan.calibrate && plan.first_window.value == 1 && plan.resume_from.empty();
}

/// Windows beyond the slowest stage that keep all stages busy: a micro-batch for each stage and one more, in
/// whole windows, and the window that is being worked on.
std::uint64_t ahead_windows(const LocalClusterPlan& plan, const MicroBatchProvider& batches) {
  if (plan.last_window < plan.first_window) return 1;
  const std::uint64_t micro_batches = batches.micro_batches(plan.first_window);
  return (plan.stages + micro_batches) / micro_batches + 1;
}

std::string describe(const StageRestart& restart) {
  const std::string from =
      restart.window ? "from window " + std::to_string(restart.window->value) : "its calibration";
  return "stage " + std::to_string(restart.stage.value) + " restarted " + from + " (incarnation " +
         std::to_string(restart.incarnation.value) + "): " + restart.cause;
}

CoordinatorSetup set_up(const LocalClusterPlan& plan,
                        const std::shared_ptr<const MicroBatchProvider>& batches,
                        const BackendFactory& make_backend,
                        std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                        const std::function<bool()>& stop_requested, const LocalClusterObserver& observer,
                        const FaultHook& fault_hook) {
  CoordinatorSetup setup;
  setup.run_id = plan.run_id;
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
  setup.card = {"local", program_version, std::max(1u, std::thread::hardware_concurrency()), 0, 1};
  StageCommons& commons = setup.commons;
  commons.stages = plan.stages;
  commons.first_window = plan.first_window;
  commons.calibrates = calibrates(plan);
  commons.checkpoints = {plan.checkpoint_every,
                         std::max(plan.last_window, WindowIndex{plan.first_window.value - 1})};
  commons.micro_batches = [batches](WindowIndex window) { return batches->micro_batches(window); };
  commons.depth = plan.depth;
  commons.buffer_bytes_max = plan.buffer_bytes_max;
  commons.checkpoint_root = plan.checkpoints;
  commons.intensity.restarts_max = plan.restarts_max;
  commons.intensity.period = plan.restart_period;
  commons.run_start = std::chrono::steady_clock::now();
  commons.fault = fault_hook;
  for (std::uint64_t k = 0; k < plan.stages; ++k) {
    StageSupervisorSetup stage;
    stage.stage = StageIndex{k};
    stage.account = accounts[k].get();
    stage.make_backend = [make_backend, index = StageIndex{k}, account = accounts[k].get()] {
      return make_backend(index, *account);
    };
    if (!plan.resume_from.empty())
      stage.initial.state = std::make_shared<const StageState>(plan.resume_from[k]);
    setup.stages.push_back(std::move(stage));
  }
  setup.source_account = accounts.front().get();
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

}  // namespace

LocalClusterOutcome run_local_cluster(const LocalClusterPlan& plan,
                                      std::shared_ptr<const MicroBatchProvider> batches,
                                      const BackendFactory& make_backend,
                                      std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                                      const std::function<bool()>& stop_requested,
                                      const LocalClusterObserver& observer, FaultHook fault_hook) {
  check(plan, accounts.size());
  ZEROLOCK_INVARIANT(!calibrates(plan) || batches->micro_batches(WindowIndex{0}) > 0,
                     "a run that calibrates has rows to do so");
  RunEnd end;
  {
    SystemConfig config;
    caf::actor_system system(config);
    caf::scoped_actor self(system);
    CoordinatorSetup setup =
        set_up(plan, batches, make_backend, accounts, stop_requested, observer, fault_hook);
    setup.owner = caf::actor_cast<caf::actor>(self);
    auto coordinator = spawn_coordinator_supervisor(*self.ptr(), std::move(setup));
    end = await_end(self, coordinator, stop_requested);
    coordinator = nullptr;
    // The coordinator speaks last; if it could not, its children follow it on their own.
    self->await_all_other_actors_done();
  }
  LocalClusterOutcome outcome;
  outcome.failure = end.failure;
  outcome.bad_input = end.bad_input;
  const auto durable = common_durable_window(plan.checkpoints, plan.stages);
  outcome.durable = durable.value_or(WindowIndex{plan.first_window.value - 1});
  if (!end.finished) return outcome;
  outcome.kind = end.stopped && outcome.durable < plan.last_window ? LocalClusterOutcome::Kind::stopped
                                                                   : LocalClusterOutcome::Kind::finished;
  for (const StageSummary& stage : end.stages) {
    outcome.stages.push_back({stage.incarnation,
                              read_checkpoint(plan.checkpoints, stage.stage, outcome.durable),
                              stage.duplicates_dropped});
  }
  return outcome;
}

}  // namespace zerolock
