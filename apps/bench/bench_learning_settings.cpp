#include "apps/bench/bench_learning_settings.hpp"

#include <algorithm>

#include "apps/command/nearest_name.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

/// Where the model's own head, or a part of it, reads every stage, the rate is that of the study that the
/// recipes come from: 3e-3 destroys.
constexpr double uncalibrated_rate = 1e-3;

/// A head for the curves over updates: in the stages before the last, and in the last.
struct CurveHead {
  const char* name;
  const char* head;
  std::optional<double> learning_rate;  // none: the recipe's
};

/// "static-alpha-0.75" and so on: each head with each weight of the task loss.
void add_curves(std::vector<LearningSetting>& settings, const std::vector<CurveHead>& heads) {
  for (const CurveHead& head : heads) {
    for (const auto& [text, alpha] : std::vector<std::pair<const char*, double>>{
             {"1", 1.0}, {"0.75", 0.75}, {"0.5", 0.5}, {"0.25", 0.25}}) {
      settings.push_back({.name = std::string(head.name) + "-alpha-" + text,
                          .usual = false,
                          .in_curves = true,
                          .head = head.head,
                          .alpha = alpha,
                          .learning_rate = head.learning_rate});
    }
  }
}

std::vector<LearningSetting> classification_settings() {
  std::vector<LearningSetting> settings;
  settings.push_back({.name = "backpropagation", .in_curves = true, .one_stage = true});
  settings.push_back(
      {.name = "backpropagation-restricted", .usual = false, .one_stage = true, .head = "restricted"});
  settings.push_back({.name = "paper", .recipe = Recipe::paper});
  settings.push_back({.name = "static-half",
                      .usual = false,
                      .head = "static",
                      .alpha = 0.5,
                      .learning_rate = uncalibrated_rate});
  settings.push_back({.name = "static", .head = "static", .alpha = 1, .learning_rate = uncalibrated_rate});
  settings.push_back({.name = "last-only", .train_stages = "last"});
  settings.push_back(
      {.name = "last-only-restricted", .head = "inner=static,last=restricted", .train_stages = "last"});
  settings.push_back({.name = "recipe"});
  settings.push_back({.name = "recipe-restricted", .head = "inner=calibrated,last=restricted"});
  settings.push_back({.name = "recipe-full", .usual = false, .head = "inner=calibrated:full,last=static"});
  settings.push_back({.name = "recipe-half", .usual = false, .alpha = 0.5});
  settings.push_back(
      {.name = "adapter", .usual = false, .in_curves = true, .head = "inner=adapter,last=static"});
  settings.push_back({.name = "bottleneck", .usual = false, .head = "inner=bottleneck:full,last=static"});
  add_curves(settings, {{"static", "static", uncalibrated_rate},
                        {"restricted", "restricted", uncalibrated_rate},
                        {"calibrated", "inner=calibrated,last=static", {}},
                        {"bottleneck", "inner=bottleneck:full,last=static", uncalibrated_rate}});
  return settings;
}

std::vector<LearningSetting> free_text_settings() {
  std::vector<LearningSetting> settings;
  settings.push_back({.name = "backpropagation", .in_curves = true, .one_stage = true});
  settings.push_back({.name = "paper", .usual = false, .recipe = Recipe::paper});
  settings.push_back({.name = "static", .usual = false, .head = "static"});
  settings.push_back({.name = "last-only", .train_stages = "last"});
  settings.push_back({.name = "recipe"});
  settings.push_back({.name = "recipe-even", .usual = false, .inner_scale = 1});
  settings.push_back({.name = "recipe-half", .usual = false, .alpha = 0.5});
  add_curves(settings, {{"static", "static", uncalibrated_rate},
                        {"calibrated", "inner=calibrated:full,last=static", {}},
                        {"bottleneck", "inner=bottleneck:full,last=static", uncalibrated_rate}});
  return settings;
}

std::vector<std::string> names_of(const std::vector<LearningSetting>& settings) {
  std::vector<std::string> names;
  for (const LearningSetting& setting : settings) names.push_back(setting.name);
  return names;
}

const LearningSetting* setting_named(LearningTask task, const std::string& name) {
  const std::vector<LearningSetting>& settings = learning_settings(task);
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const auto& setting) { return setting.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

LearningTask other_task(LearningTask task) {
  return task == LearningTask::classification ? LearningTask::free_text : LearningTask::classification;
}

}  // namespace

bool LearningSetting::sets(const std::string& flag) const {
  return (flag == "head" && head) || (flag == "alpha" && alpha) || (flag == "lr" && learning_rate) ||
         (flag == "inner-lr-scale" && inner_scale) || (flag == "train-stages" && train_stages);
}

TrainOptions LearningSetting::applied_to(TrainOptions base, LearningTask task) const {
  const std::string where = "setting " + name;
  if (one_stage) {
    base.schedule = TrainingSchedule::bp;
    base.stages = 1;
    base.layers.clear();
  }
  base.recipe = recipe;
  if (head) parse_heads(*head, where, base.inner_head, base.last_head);
  if (alpha) base.settings.loss.alpha = *alpha;
  if (learning_rate) base.settings.optimizer.learning_rate = *learning_rate;
  if (inner_scale) base.settings.optimizer.inner_learning_rate_scale = *inner_scale;
  if (train_stages) base.train_stages = TrainedStages::parse(*train_stages, where);
  static_cast<void>(apply_recipe(base, task, [this](const std::string& flag) { return sets(flag); }));
  return base;
}

const std::vector<LearningSetting>& learning_settings(LearningTask task) {
  static const std::vector<LearningSetting> classification = classification_settings();
  static const std::vector<LearningSetting> free_text = free_text_settings();
  return task == LearningTask::classification ? classification : free_text;
}

std::vector<LearningSetting> chosen_settings(LearningTask task, const std::vector<std::string>& names,
                                             bool both_tasks) {
  std::vector<LearningSetting> chosen;
  const bool curves = names == std::vector<std::string>{learning_curves_name};
  if (names.empty() || curves) {
    for (const LearningSetting& setting : learning_settings(task)) {
      if (curves ? setting.in_curves : setting.usual) chosen.push_back(setting);
    }
    return chosen;
  }
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1) {
      throw InputError("--settings", "'" + name + "' is named twice");
    }
    if (const LearningSetting* setting = setting_named(task, name)) {
      chosen.push_back(*setting);
    } else if (!both_tasks || setting_named(other_task(task), name) == nullptr) {
      const std::vector<std::string> known = names_of(learning_settings(task));
      throw InputError("--settings", "'" + name + "' is no setting for " + task_name(task) +
                                         suggestion(name, known, "") + "; allowed: " + joined(known) +
                                         ", or " + learning_curves_name + " alone");
    }
  }
  return chosen;
}

std::string task_name(LearningTask task) {
  return task == LearningTask::classification ? "classification" : "free text";
}

}  // namespace zerolock
