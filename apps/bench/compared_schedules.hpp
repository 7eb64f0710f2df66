#pragma once
/// The schedules that benchmarks compare, and what makes them comparable.

#include <string>
#include <vector>

#include "actors/core/training_schedule.hpp"
#include "apps/command/option_table.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// zerolock and those that cut a model into stages as it does: gpipe, 1f1b, pipedream.
const std::vector<TrainingSchedule>& compared_schedules();
/// --schedules: "zerolock,gpipe,1f1b,pipedream" or some of them, each once.
void declare_schedules(OptionTable& table, std::vector<TrainingSchedule>& schedules, const std::string& help);
std::string schedules_text(const std::vector<TrainingSchedule>& schedules);

/// The settings of a run of that schedule: where one loss reaches all stages, there is nothing to weigh it
/// against, one head, one learning rate and no clipping by stage.
TrainingSettings settings_under(TrainingSchedule schedule, TrainingSettings settings);

}  // namespace zerolock
