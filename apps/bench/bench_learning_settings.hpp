#pragma once
/// The ways to train that `zerolock bench learning` compares, by name.

#include <optional>
#include <string>
#include <vector>

#include "apps/command/recipe.hpp"
#include "apps/command/train_options.hpp"

namespace zerolock {

/// Stands for all settings of the paper's figure of curves over updates: backpropagation, and each head with
/// alpha 1, 0.75, 0.5 and 0.25 (an adapter head with 1 alone: none can be compared with while it is trained).
inline constexpr const char* learning_curves_name = "curves";

/// A recipe and what is set by hand instead.
struct LearningSetting {
  std::string name;
  bool usual = true;       // measured unless --settings says otherwise
  bool in_curves = false;  // one of learning_curves_name
  bool one_stage = false;  // backpropagation through the whole model, --schedule bp
  Recipe recipe = Recipe::automatic;
  std::optional<std::string> head = {};
  std::optional<double> alpha = {};
  std::optional<double> learning_rate = {};
  std::optional<double> inner_scale = {};
  std::optional<std::string> train_stages = {};

  /// Whether it sets that option of the recipe itself.
  [[nodiscard]] bool sets(const std::string& flag) const;
  /// `base` with all that the setting and its recipe decide for such rows.
  [[nodiscard]] TrainOptions applied_to(TrainOptions base, LearningTask task) const;
};

/// All settings for such rows, in the order of the table.
const std::vector<LearningSetting>& learning_settings(LearningTask task);

/// Those with the given names, those of the curves for learning_curves_name alone, or the usual ones if there
/// are none. A name that only the other task knows is
/// passed over where `both_tasks` are measured. Throws InputError for a name that no task knows.
std::vector<LearningSetting> chosen_settings(LearningTask task, const std::vector<std::string>& names,
                                             bool both_tasks);

/// "classification" or "free text"
std::string task_name(LearningTask task);

}  // namespace zerolock
