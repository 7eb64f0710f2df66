#pragma once
/// Which readouts, rates and stages to train where nobody says so: what a study on SmolLM2-135M in three
/// stages, 32 updates, found to learn best (docs: AG News for classes, its headlines for free text).

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command/train_options.hpp"
#include "data/dataset.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

/// What a recipe looks at.
enum class LearningTask {
  classification,  // rows have one of a few classes, each answered by a token of its own
  free_text,
};

/// Classes of several tokens, or more than 256 of them, are learned as free text.
LearningTask learning_task(const Dataset& dataset, const Tokenizer& tokenizer, const PromptTemplate* prompt);

/// What a recipe made of the options, for people and for summary.json.
struct RecipeReport {
  std::string recipe;                // "auto" or "paper"
  std::string seen;                  // what it was chosen for
  nlohmann::ordered_json chosen;     // by flag: what the recipe set
  std::vector<std::string> by_hand;  // flags of the recipe that were given
  std::string why;
  std::string expectation;  // against backpropagation through all stages

  /// One paragraph.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// Options that recipes set, by the names of their flags.
const std::vector<std::string>& recipe_flags();

/// Sets each of recipe_flags() that `by_hand` does not name. `recipe` of the options must not be none.
RecipeReport apply_recipe(TrainOptions& options, LearningTask task,
                          const std::function<bool(const std::string& flag)>& by_hand);

}  // namespace zerolock
