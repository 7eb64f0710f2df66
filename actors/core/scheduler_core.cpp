#include "actors/core/scheduler_core.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

SchedulerCore::SchedulerCore(const SchedulerSetup& setup)
    : lead_windows_(setup.lead_windows),
      ahead_windows_(setup.ahead_windows),
      last_(std::max(setup.last_window, WindowIndex{setup.first_window.value - 1})),
      first_granted_{setup.first_window.value - 1},
      granted_(first_granted_),
      before_start_(setup.calibrates ? WindowsDone{} : WindowsDone{granted_}),
      line_(before_start_) {
  ZEROLOCK_INVARIANT(setup.stages > 0, "a run has a stage");
  ZEROLOCK_INVARIANT(setup.first_window.value > 0, "training windows count from 1");
  ZEROLOCK_INVARIANT(setup.lead_windows > 0 && setup.ahead_windows > 0,
                     "without a lead nothing could ever be granted");
  ZEROLOCK_INVARIANT(!setup.calibrates || setup.first_window == WindowIndex{1},
                     "calibration comes before all training");
  stages_.resize(setup.stages, Stage{{}, before_start_, std::nullopt});
}

void SchedulerCore::remember(const JournalState& journal) {
  ZEROLOCK_INVARIANT(!started_, "a scheduler remembers before it starts");
  if (journal.granted) granted_ = std::max(granted_, *journal.granted);
  for (const auto& [stage, window] : journal.durable) {
    Stage& known = stages_.at(stage.value);
    known.durable = window;
    known.committed = std::max(known.committed, WindowsDone{window});
  }
  if (!journal.ends_at) return;
  stopping_ = true;
  last_ = std::min(last_, *journal.ends_at);
}

SchedulerOrders SchedulerCore::start() {
  started_ = true;
  const WindowIndex remembered = granted_;
  SchedulerOrders orders = advance();
  if (!orders.grant && remembered != first_granted_) orders.grant = remembered;
  return orders;
}

SchedulerOrders SchedulerCore::committed(StageIndex stage, Incarnation incarnation, WindowIndex window) {
  Stage& known = stages_.at(stage.value);
  if (incarnation < known.incarnation) return {};
  ZEROLOCK_INVARIANT(window <= granted_, "a stage trains only what was granted");
  known.incarnation = incarnation;
  known.committed = window;
  return advance();
}

SchedulerOrders SchedulerCore::durable(StageIndex stage, WindowIndex window) {
  Stage& known = stages_.at(stage.value);
  ZEROLOCK_INVARIANT(window <= granted_, "a stage makes durable only what was granted");
  if (known.durable && window <= *known.durable) return {};
  known.durable = window;
  return advance();
}

SchedulerOrders SchedulerCore::request_stop() {
  if (stopping_) return {};
  stopping_ = true;
  SchedulerOrders orders;
  if (granted_ < last_) {
    last_ = granted_;
    orders.end_at = last_;
  }
  const SchedulerOrders rest = advance();
  orders.finished = rest.finished;
  return orders;
}

SchedulerOrders SchedulerCore::advance() {
  SchedulerOrders orders;
  WindowsDone oldest = last_;
  WindowsDone slowest = last_;
  bool all_reported = true;
  for (const Stage& stage : stages_) {
    oldest = std::min(oldest, stage.durable ? stage.durable : before_start_);
    slowest = std::min(slowest, stage.committed);
    all_reported = all_reported && stage.durable.has_value();
  }
  if (oldest > line_) {
    line_ = oldest;
    orders.recovery_line = line_;
  }
  const auto beyond = [](const WindowsDone& done, std::uint64_t windows) {
    return WindowIndex{window_after(done).value + windows - 1};
  };
  const WindowIndex limit = std::min({last_, beyond(line_, lead_windows_), beyond(slowest, ahead_windows_)});
  if (started_ && !stopping_ && limit > granted_) {
    granted_ = limit;
    orders.grant = granted_;
  }
  if (!finished_ && all_reported && line_ == last_) {
    finished_ = true;
    orders.finished = true;
  }
  return orders;
}

}  // namespace zerolock
