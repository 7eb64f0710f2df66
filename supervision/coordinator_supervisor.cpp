#include "supervision/coordinator_supervisor.hpp"

#include <algorithm>
#include <optional>

#include "actors/batch_source.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/journal_file.hpp"
#include "actors/journal_keeper.hpp"
#include "actors/membership.hpp"
#include "actors/scheduler.hpp"
#include "actors/targets_holder.hpp"
#include "supervision/children.hpp"

namespace zerolock {
namespace {

enum Child : std::size_t {
  recorder_child,
  journal_child,
  membership_child,
  source_child,
  targets_child,
  scheduler_child,
  executors_child,
  child_count
};
constexpr const char* child_names[child_count] = {"the run recorder", "the journal",        "membership",
                                                  "the batch source", "the targets holder", "the scheduler",
                                                  "the executors"};

class CoordinatorSupervisor final : public CoordinatorSupervisorActor::base {
 public:
  CoordinatorSupervisor(caf::actor_config& config, caf::actor_addr parent, CoordinatorSetup setup)
      : CoordinatorSupervisorActor::base(config), parent_(parent), setup_(std::move(setup)) {
    contain_failures(this);
    monitor(parent);
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](caf::exit_msg&) { fail("it was told to go", false); });
  }

  [[nodiscard]] const char* name() const override { return "coordinator supervisor"; }

  behavior_type make_behavior() override {
    start_children();
    return {[this](end_at_atom, WindowIndex, bool stopped) {
              end_.stopped = stopped;
              gather_summaries();
            },
            [this](stop_atom) {
              if (scheduler_) send(scheduler_, stop_atom::value);
            }};
  }

  void on_exit() override {
    children_.clear();
    journal_ = nullptr;
    scheduler_ = nullptr;
    executors_ = nullptr;
    setup_ = {};
  }

 private:
  template <class Handle>
  const Handle& started(Child child, const Handle& handle) {
    children_.started(child, caf::actor_cast<caf::actor>(handle));
    return handle;
  }

  void start_children() {
    const auto recorder = started(recorder_child, spawn_run_recorder(*this, setup_.sinks));
    journal_ = started(journal_child,
                       spawn_journal_keeper(*this, setup_.journal.empty() ? make_memory_journal()
                                                                          : open_journal(setup_.journal)));
    const auto membership = started(membership_child, spawn_membership(*this, setup_.version));
    const auto source =
        started(source_child, spawn_batch_source(*this, setup_.batches, *setup_.source_account));
    const auto targets = started(targets_child, spawn_targets_holder(*this));
    scheduler_ = started(scheduler_child,
                         spawn_scheduler(*this, setup_.schedule,
                                         {journal_, source, targets, caf::actor_cast<RunOwnerActor>(this),
                                          setup_.stop_requested, setup_.recovers}));
    if (!setup_.recovers) {
      const WindowIndex before{setup_.schedule.first_window.value - 1};
      keep({JournalRecord::Kind::run_started, {}, before, setup_.session});
    }
    executors_ =
        started(executors_child,
                setup_.spawn_executors(*this, {journal_, recorder, membership, source, targets, scheduler_}));
    send(scheduler_, start_atom::value);
  }

  /// What others keep follows in the same mailbox, so the first record is the run's start.
  void keep(const JournalRecord& record) {
    request(journal_, deadlines.journal, append_atom::value, record)
        .then([](std::uint64_t) {},
              [this](caf::error& error) { fail("the journal failed because " + cause_of(error), false); });
  }

  void gather_summaries() {
    request(executors_, deadlines.executor_summary, summary_atom::value)
        .then(
            [this](const std::vector<StageSummary>& stages) {
              if (closing_) return;
              end_.finished = true;
              end_.stages = stages;
              std::sort(end_.stages.begin(), end_.stages.end(),
                        [](const StageSummary& a, const StageSummary& b) { return a.stage < b.stage; });
              close();
            },
            [this](caf::error& error) {
              fail("the stages did not report because " + cause_of(error), false);
            });
  }

  void on_down(const caf::down_msg& down) {
    if (down.source == parent_) {
      quit(caf::exit_reason::user_shutdown);
      return;
    }
    const auto child = children_.find(down.source);
    if (!child) return;
    const bool expected = children_.down(*child);
    if (!expected && !closing_) {
      const std::string cause = cause_of(down.reason);
      if (is_bad_input(down.reason)) {
        fail(cause, true);
      } else if (*child == executors_child && is_permanent(down.reason)) {
        fail(cause, false);
      } else {
        fail(std::string(child_names[*child]) + " failed because " + cause, false);
      }
    } else {
      continue_stop();
    }
  }

  void fail(const std::string& cause, bool bad_input) {
    if (closing_) return;
    end_.failure = cause;
    end_.bad_input = bad_input;
    closing_ = true;
    if (!children_.running(journal_child)) {
      close();
      return;
    }
    // Nobody is to wait for this session again.
    request(journal_, deadlines.journal, append_atom::value,
            JournalRecord{JournalRecord::Kind::run_failed, {}, {}, cause})
        .then([this](std::uint64_t) { close(); }, [this](caf::error&) { close(); });
  }

  void close() {
    closing_ = true;
    children_.stop_from(recorder_child);
    continue_stop();
  }

  void continue_stop() {
    if (!children_.continue_stop(this)) return;
    caf::anon_send(setup_.owner, end_at_atom::value, std::move(end_));
    quit(caf::exit_reason::normal);
  }

  caf::actor_addr parent_;
  CoordinatorSetup setup_;
  Children children_{child_count};
  JournalActor journal_;
  SchedulerActor scheduler_;
  ExecutorsActor executors_;
  RunEnd end_;
  bool closing_ = false;
};

}  // namespace

CoordinatorSupervisorActor spawn_coordinator_supervisor(caf::local_actor& parent, CoordinatorSetup setup) {
  return parent.spawn<CoordinatorSupervisor, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
