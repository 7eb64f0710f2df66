#include "apps/command/recipe.hpp"

#include <algorithm>
#include <set>

#include "data/label_answers.hpp"

namespace zerolock {

namespace {

constexpr std::size_t classes_max = 256;

/// Everything that a recipe decides, and why.
struct Choice {
  HeadChoice inner_head;
  HeadChoice last_head;
  double alpha = 1;
  double learning_rate = 0;
  double inner_scale = 1;
  ScheduleKind schedule = ScheduleKind::constant;
  TrainedStages train_stages;
  double ridge = 0.1;
  std::uint64_t calibration_rows = 512;
  std::string why;
  std::string expectation;
};

Choice classification() {
  Choice choice;
  choice.inner_head = {HeadKind::calibrated, false};
  choice.learning_rate = 3e-3;
  choice.why =
      "the model's own head cannot read inner hidden states; one calibrated before training, over the labels "
      "alone, lets every stage learn, and the last stage keeps its whole vocabulary (--head "
      "inner=calibrated,last=restricted if only labels are ever asked for)";
  choice.expectation =
      "as accurate as backpropagation through all stages, with a little more loss: accuracy 0.843 +- 0.006 "
      "against 0.845, NLL 0.486 +- 0.011 against 0.462 (AG News, 1024 rows, 32 updates; 3 seeds against one)";
  return choice;
}

Choice free_text() {
  Choice choice;
  choice.inner_head = {HeadKind::calibrated, true};
  choice.learning_rate = 4e-3;
  choice.inner_scale = 0.05;
  choice.ridge = 0.01;
  choice.calibration_rows = 256;
  choice.why =
      "the last stage learns most, at a rate that was tuned for 32 updates and is not scaled to other "
      "lengths; "
      "inner stages gain a little through calibrated readouts at 1/20 of it, and lose at more";
  choice.expectation =
      "worse than backpropagation through all stages by 0.17 nats per token (3.370 against 3.201; 3.384 with "
      "the last stage alone; headlines, 512 rows, 32 updates; 2 seeds against one)";
  return choice;
}

Choice one_stage(LearningTask task) {
  Choice choice;
  choice.learning_rate = task == LearningTask::classification ? 3e-3 : 2e-3;
  choice.why = "one stage holds the whole model, so its loss is the model's";
  choice.expectation = "this is backpropagation through all layers";
  return choice;
}

Choice paper() {
  Choice choice;
  choice.alpha = 0.5;
  choice.learning_rate = 1e-4;
  choice.why = "the paper's setting: the model's own head after every stage, half of the loss consistency";
  choice.expectation =
      "much worse than backpropagation through all stages: with this loss at a rate of 1e-3, accuracy 0.615 "
      "against 0.83 (AG News, 32 updates)";
  return choice;
}

const char* schedule_name(ScheduleKind schedule) {
  static constexpr const char* names[] = {"constant", "cosine", "inverse-sqrt"};
  return names[static_cast<int>(schedule)];
}

}  // namespace

LearningTask learning_task(const Dataset& dataset, const Tokenizer& tokenizer, const PromptTemplate* prompt) {
  if (dataset.labels.empty() || dataset.labels.size() > classes_max) return LearningTask::free_text;
  std::set<TokenId> tokens;
  for (const auto& answer : label_answers(tokenizer, dataset.labels, prompt)) {
    if (answer.size() != 1 || !tokens.insert(answer.front()).second) return LearningTask::free_text;
  }
  return LearningTask::classification;
}

std::string RecipeReport::text() const {
  std::string settings;
  for (const auto& [flag, value] : chosen.items()) {
    settings += " --" + flag + " " + (value.is_string() ? value.get<std::string>() : number_text(value));
  }
  if (settings.empty()) return "recipe " + recipe + ": all that it would set is set by hand";
  std::string text = "recipe " + recipe + " for " + seen + ":" + settings;
  if (!by_hand.empty()) {
    text += "; set by hand: " + joined(by_hand) + " (what follows is about the recipe as it is)";
  }
  return text + ". Why: " + why + ". Expect: " + expectation + ".";
}

nlohmann::ordered_json RecipeReport::to_json() const {
  return {{"name", recipe},     {"seen", seen}, {"chosen", chosen},
          {"by_hand", by_hand}, {"why", why},   {"expectation", expectation}};
}

const std::vector<std::string>& recipe_flags() {
  static const std::vector<std::string> flags{"head",        "alpha",        "lr",    "inner-lr-scale",
                                              "lr-schedule", "train-stages", "ridge", "calibration-rows"};
  return flags;
}

RecipeReport apply_recipe(TrainOptions& options, LearningTask task,
                          const std::function<bool(const std::string& flag)>& by_hand) {
  RecipeReport report;
  Choice choice;
  if (options.recipe == Recipe::paper) {
    report.recipe = "paper";
    report.seen = "any data";
    choice = paper();
  } else {
    const bool classes = task == LearningTask::classification;
    report.recipe = "auto";
    report.seen = classes ? "rows with one of a few classes" : "free text";
    const bool reaches_all = gradient_reach(options.schedule) != GradientReach::stage;
    if (options.stage_count() == 1 || reaches_all) {
      report.seen += reaches_all ? " with one loss for all stages" : " in one stage";
      choice = one_stage(task);
      if (reaches_all) choice.why = "the loss is the model's, as it would be in one stage";
    } else {
      choice = classes ? classification() : free_text();
    }
  }
  report.why = choice.why;
  report.expectation = choice.expectation;
  const auto set = [&](const std::string& flag, const auto& value, auto& target) {
    if (by_hand(flag)) {
      report.by_hand.push_back("--" + flag);
      return false;
    }
    target = value;
    return true;
  };
  if (set("head", choice.inner_head, options.inner_head)) {
    options.last_head = choice.last_head;
    report.chosen["head"] = heads_text(options.inner_head, options.last_head);
  }
  OptimizerSettings& optimizer = options.settings.optimizer;
  if (set("alpha", choice.alpha, options.settings.loss.alpha)) report.chosen["alpha"] = choice.alpha;
  if (set("lr", choice.learning_rate, optimizer.learning_rate)) report.chosen["lr"] = choice.learning_rate;
  if (set("inner-lr-scale", choice.inner_scale, optimizer.inner_learning_rate_scale)) {
    report.chosen["inner-lr-scale"] = choice.inner_scale;
  }
  if (set("lr-schedule", choice.schedule, optimizer.schedule)) {
    report.chosen["lr-schedule"] = schedule_name(choice.schedule);
  }
  if (set("train-stages", choice.train_stages, options.train_stages)) {
    report.chosen["train-stages"] = choice.train_stages.text();
  }
  const bool calibrates = options.inner_head.kind == HeadKind::calibrated && options.stage_count() > 1;
  if (set("ridge", choice.ridge, options.ridge) && calibrates) report.chosen["ridge"] = choice.ridge;
  if (set("calibration-rows", choice.calibration_rows, options.calibration_rows) && calibrates) {
    report.chosen["calibration-rows"] = choice.calibration_rows;
  }
  return report;
}

}  // namespace zerolock
