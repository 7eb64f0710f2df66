#pragma once
/// In which order a stage works: the lists of steps of zerolock's own schedule and of those that it is
/// compared with.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "actors/core/window_order.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

enum class TrainingSchedule : std::uint8_t {
  zerolock,     // every stage has a loss of its own; nothing comes back from later stages
  bp,           // backpropagation in one stage
  gpipe,        // all forwards of a window, then all backwards (Huang et al. 2019)
  one_f_one_b,  // "1f1b": the same window, each backward as early as it can be (Narayanan et al. 2021)
  pipedream,    // one forward, one backward across windows, with stashed weights (Narayanan et al. 2019)
};
/// As the command line names it.
std::string_view to_string(TrainingSchedule schedule);
GradientReach gradient_reach(TrainingSchedule schedule);
/// Whether a stage that failed can go on from its own checkpoint and buffers, without its neighbours. Where
/// gradients cross boundaries it cannot: those it lacks were used up, and its own are part of what the stages
/// before it have trained.
bool restores_stages_alone(TrainingSchedule schedule);
/// Whether a checkpoint holds all that a run needs to go on as if it had never stopped.
bool resumes_exactly(TrainingSchedule schedule);

/// One item of the list that a window is worked off by.
struct ScheduledStep {
  enum class Kind : std::uint8_t { forward, backward, step, calibrate, hand_over, fit } kind = Kind::step;
  BatchPosition position;  // forward, backward and calibrate; the others: the window's last micro-batch

  constexpr bool operator==(const ScheduledStep&) const = default;
};

/// What a window's list depends on.
struct WindowToDo {
  WindowIndex window;
  BatchPosition next_forward;  // the first micro-batch that this life has not forwarded yet
  WindowIndex last;            // of the run
  const MicroBatchCount& micro_batches;
};

/// Makes the list of a window. Ends with its only step. Forwards follow one another in the order of
/// micro-batches, from next_forward on.
using WindowSchedule = std::function<std::vector<ScheduledStep>(const WindowToDo&)>;

/// Of one stage of so many.
WindowSchedule window_schedule(TrainingSchedule schedule, StageIndex stage, std::uint64_t stages);

/// Forward and backward of each micro-batch in turn.
std::vector<ScheduledStep> chunk_local_schedule(const WindowToDo& window);

/// Window 0 of a stage that takes part in calibration: all forwards, of the last stage the targets, the fit.
std::vector<ScheduledStep> calibration_schedule(const WindowToDo& window, bool last_stage);

}  // namespace zerolock
