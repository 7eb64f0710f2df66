#include "apps/bench/compared_schedules.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

std::vector<TrainingSchedule> parse_schedules(const std::string& text, const std::string& where) {
  const std::vector<TrainingSchedule>& all = compared_schedules();
  std::vector<TrainingSchedule> chosen;
  for (const std::string& name : split_list(text)) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](TrainingSchedule schedule) { return to_string(schedule) == name; });
    if (found == all.end()) {
      throw InputError(where, "'" + name + "' is not among those compared; allowed: " + schedules_text(all));
    }
    if (std::count(chosen.begin(), chosen.end(), *found) > 0) {
      throw InputError(where, "'" + name + "' is named twice");
    }
    chosen.push_back(*found);
  }
  if (chosen.empty()) throw InputError(where, "the list is empty; allowed: " + schedules_text(all));
  return chosen;
}

}  // namespace

const std::vector<TrainingSchedule>& compared_schedules() {
  static const std::vector<TrainingSchedule> all = {TrainingSchedule::zerolock, TrainingSchedule::gpipe,
                                                    TrainingSchedule::one_f_one_b,
                                                    TrainingSchedule::pipedream};
  return all;
}

std::string schedules_text(const std::vector<TrainingSchedule>& schedules) {
  std::vector<std::string> names;
  for (const TrainingSchedule schedule : schedules) names.emplace_back(to_string(schedule));
  return joined(names, ",");
}

void declare_schedules(OptionTable& table, std::vector<TrainingSchedule>& schedules,
                       const std::string& help) {
  table.parsed(
      "schedules",
      [&schedules](const std::string& value, const std::string& where) {
        schedules = parse_schedules(value, where);
      },
      [&schedules] { return schedules_text(schedules); }, schedules_text(compared_schedules()), help);
}

TrainingSettings settings_under(TrainingSchedule schedule, TrainingSettings settings) {
  if (gradient_reach(schedule) == GradientReach::stage) return settings;
  settings.loss.alpha = 1;
  settings.loss.inner_head = settings.loss.last_head;
  settings.optimizer.inner_learning_rate_scale = 1;
  settings.optimizer.clip_norm.reset();
  settings.trained_stages.reset();
  return settings;
}

}  // namespace zerolock
