#include "actors/scheduler.hpp"

#include <functional>
#include <map>
#include <utility>

#include "actors/deadlines.hpp"
#include "actors/failure.hpp"

namespace zerolock {
namespace {

class Scheduler final : public SchedulerActor::base {
 public:
  Scheduler(caf::actor_config& config, caf::actor_addr parent, const SchedulerSetup& setup,
            SchedulerWiring wiring)
      : SchedulerActor::base(config), core_(setup), wiring_(std::move(wiring)) {
    contain_failures(this);
    live_under(this, parent);
    if (wiring_.recovers) core_.remember(*wiring_.recovers);
    end_kept_ = core_.stopping();
  }

  [[nodiscard]] const char* name() const override { return "scheduler"; }

  behavior_type make_behavior() override {
    return {[this](start_atom) {
              stop_if_requested();
              carry_out(core_.start());
            },
            [this](attach_atom, StageIndex stage, const StageControlActor& control) {
              stages_[stage] = control;
              if (core_.recovery_line()) send(control, line_atom::value, *core_.recovery_line());
              if (end_kept_) send(control, end_at_atom::value, core_.last_window());
            },
            [this](commit_atom, StageIndex stage, Incarnation incarnation, WindowIndex window) {
              stop_if_requested();
              carry_out(core_.committed(stage, incarnation, window));
            },
            [this](durable_atom, StageIndex stage, WindowIndex window) {
              stop_if_requested();
              keep({JournalRecord::Kind::stage_durable, stage, window, {}}, [] {});
              carry_out(core_.durable(stage, window));
            },
            [this](stop_atom) { stop(); }};
  }

  /// Actors that know each other would keep each other in memory.
  void on_exit() override {
    stages_.clear();
    wiring_ = {};
  }

 private:
  void stop_if_requested() {
    if (!core_.stopping() && wiring_.stop_requested()) stop();
  }

  void stop() {
    if (core_.stopping()) return;
    const SchedulerOrders orders = core_.request_stop();
    keep({JournalRecord::Kind::run_ends_at, {}, core_.last_window(), {}}, [this, orders] {
      end_kept_ = true;
      carry_out(orders);
    });
  }

  /// What is promised is kept first: a coordinator that starts again must know of it.
  void carry_out(const SchedulerOrders& orders) {
    // The line is no promise: the journal has what it follows from.
    if (orders.recovery_line) send(wiring_.targets, line_atom::value, *orders.recovery_line);
    // Most orders are for no stage, and there are many stages.
    if (orders.recovery_line) tell_stages(line_atom::value, *orders.recovery_line);
    if (orders.end_at) tell_stages(end_at_atom::value, *orders.end_at);
    if (orders.grant) {
      keep({JournalRecord::Kind::windows_granted, {}, *orders.grant, {}},
           [this, window = *orders.grant] { send(wiring_.source, grant_atom::value, window); });
    }
    if (orders.finished) {
      keep({JournalRecord::Kind::run_finished, {}, core_.last_window(), {}},
           [this] { send(wiring_.owner, end_at_atom::value, core_.last_window(), core_.stopping()); });
    }
  }

  template <class Word>
  void tell_stages(Word word, WindowIndex window) {
    for (const auto& [stage, control] : stages_) send(control, word, window);
  }

  void keep(const JournalRecord& record, std::function<void()> then) {
    request(wiring_.journal, deadlines.journal, append_atom::value, record)
        .then([then = std::move(then)](std::uint64_t) { then(); },
              [this](caf::error& error) {
                quit(make_failure(Failure::permanent, "the journal failed because " + cause_of(error)));
              });
  }

  SchedulerCore core_;
  SchedulerWiring wiring_;
  std::map<StageIndex, StageControlActor> stages_;
  bool end_kept_ = false;  // a stop is in the journal, so that stages may hear of it
};

}  // namespace

SchedulerActor spawn_scheduler(caf::local_actor& parent, const SchedulerSetup& setup,
                               SchedulerWiring wiring) {
  return parent.spawn<Scheduler, caf::monitored>(parent.address(), setup, std::move(wiring));
}

}  // namespace zerolock
