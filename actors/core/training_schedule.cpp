#include "actors/core/training_schedule.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Kind = ScheduledStep::Kind;

/// The list of one window, item by item.
class WindowList {
 public:
  explicit WindowList(const WindowToDo& window)
      : window_(window), next_forward_(window.next_forward), count_(window.micro_batches(window.window)) {}

  [[nodiscard]] std::uint64_t micro_batches() const { return count_; }

  /// Forwards up to `ahead` micro-batches after number `i` of the window, in this window or, if `beyond`, in
  /// those after it.
  void forwards(std::uint64_t i, std::uint64_t ahead, bool beyond) {
    BatchPosition until{window_.window, i};
    const WindowIndex last = beyond ? window_.last : window_.window;
    for (std::uint64_t n = 0; n < ahead; ++n) {
      const BatchPosition after = position_after(until, window_.micro_batches);
      if (after.window > last) break;
      until = after;
    }
    for (; next_forward_ <= until; next_forward_ = position_after(next_forward_, window_.micro_batches)) {
      steps_.push_back({Kind::forward, next_forward_});
    }
  }
  void add(Kind kind, std::uint64_t i) { steps_.push_back({kind, {window_.window, i}}); }
  std::vector<ScheduledStep> with_step() {
    add(Kind::step, count_ - 1);
    return std::move(steps_);
  }

 private:
  const WindowToDo& window_;
  BatchPosition next_forward_;
  std::uint64_t count_;
  std::vector<ScheduledStep> steps_;
};

std::vector<ScheduledStep> gpipe_window(const WindowToDo& window) {
  WindowList list(window);
  list.forwards(list.micro_batches() - 1, 0, false);
  for (std::uint64_t i = list.micro_batches(); i-- > 0;) list.add(Kind::backward, i);
  return list.with_step();
}

/// Before a backward, as many forwards more as there are stages behind this one.
std::vector<ScheduledStep> alternating_window(const WindowToDo& window, std::uint64_t stages_behind,
                                              bool beyond) {
  WindowList list(window);
  for (std::uint64_t i = 0; i < list.micro_batches(); ++i) {
    list.forwards(i, stages_behind, beyond);
    list.add(Kind::backward, i);
  }
  return list.with_step();
}

}  // namespace

std::string_view to_string(TrainingSchedule schedule) {
  switch (schedule) {
    case TrainingSchedule::zerolock:
      return "zerolock";
    case TrainingSchedule::bp:
      return "bp";
    case TrainingSchedule::gpipe:
      return "gpipe";
    case TrainingSchedule::one_f_one_b:
      return "1f1b";
    case TrainingSchedule::pipedream:
      return "pipedream";
  }
  return "unknown";
}

GradientReach gradient_reach(TrainingSchedule schedule) {
  switch (schedule) {
    case TrainingSchedule::zerolock:
    case TrainingSchedule::bp:
      return GradientReach::stage;
    case TrainingSchedule::gpipe:
    case TrainingSchedule::one_f_one_b:
      return GradientReach::model;
    case TrainingSchedule::pipedream:
      return GradientReach::stashed;
  }
  return GradientReach::stage;
}

bool restores_stages_alone(TrainingSchedule schedule) {
  return gradient_reach(schedule) == GradientReach::stage;
}

bool resumes_exactly(TrainingSchedule schedule) {
  return gradient_reach(schedule) != GradientReach::stashed;
}

WindowSchedule window_schedule(TrainingSchedule schedule, StageIndex stage, std::uint64_t stages) {
  ZEROLOCK_INVARIANT(stage.value < stages, "the stage is one of the run's");
  const std::uint64_t behind = stages - 1 - stage.value;
  switch (schedule) {
    case TrainingSchedule::zerolock:
    case TrainingSchedule::bp:
      break;
    case TrainingSchedule::gpipe:
      return gpipe_window;
    case TrainingSchedule::one_f_one_b:
      return [behind](const WindowToDo& window) { return alternating_window(window, behind, false); };
    case TrainingSchedule::pipedream:
      return [behind](const WindowToDo& window) { return alternating_window(window, behind, true); };
  }
  return chunk_local_schedule;
}

std::vector<ScheduledStep> chunk_local_schedule(const WindowToDo& window) {
  return alternating_window(window, 0, false);
}

std::vector<ScheduledStep> calibration_schedule(const WindowToDo& window, bool last_stage) {
  const std::uint64_t count = window.micro_batches(window.window);
  const BatchPosition last{window.window, count - 1};
  std::vector<ScheduledStep> steps;
  steps.reserve(count + 2);
  for (std::uint64_t i = 0; i < count; ++i) steps.push_back({Kind::calibrate, {window.window, i}});
  if (last_stage) steps.push_back({Kind::hand_over, last});
  steps.push_back({Kind::fit, last});
  return steps;
}

}  // namespace zerolock
