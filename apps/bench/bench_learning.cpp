/// zerolock bench learning: what training in stages learns, setting by setting, beside backpropagation.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <thread>

#include "apps/bench/bench_learning_results.hpp"
#include "apps/bench/bench_learning_settings.hpp"
#include "apps/command/cluster_runner.hpp"
#include "apps/command/command.hpp"
#include "apps/command/evaluation.hpp"
#include "apps/command/interrupt_watch.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/command/text_file.hpp"
#include "apps/command/training_session.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

enum class TaskChoice { classification, free_text, both };

/// How AG News becomes free text: its description is asked for its title.
const std::vector<std::string> headline_columns{"number", "answer", "description"};
constexpr const char* headline_template = "Article: [[{description}]]\nHeadline: {answer}\n";

/// "classification-recipe-seed-0"
std::string run_name(LearningTask task, const LearningSetting& setting, std::uint64_t seed) {
  const std::string name = task == LearningTask::classification ? "classification" : "free-text";
  return name + "-" + setting.name + "-seed-" + std::to_string(seed);
}

/// Thrown through the runs that are left when Ctrl-C asks for a stop.
struct Interrupted {};

class BenchLearningCommand : public Command {
 public:
  BenchLearningCommand() {
    options_.windows = 32;
    options_.eval_every = 8;
  }

  [[nodiscard]] const char* name() const override { return "learning"; }
  [[nodiscard]] const char* summary() const override {
    return "accuracy and NLL of readouts, trained stages and rates, beside backpropagation";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench learning --model SmolLM2-135M-Instruct.Q4_1.gguf --data study/train.csv "
           "--eval-data study/held-out.csv --no-shuffle --seeds 0,1,2 --out runs/learning\n\n"
           "--out gets a run's folder for each setting and seed, learning.json and a plot for each task. "
           "Runs "
           "that it has already are not repeated, and one that was interrupted goes on.\n"
           "Free text is made of a CSV file with class, title and description by asking for the title, "
           "unless "
           "--columns or --template say otherwise or the rows are no CSV file.";
  }

  void declare(OptionTable& table) override {
    table.choice("task", task_,
                 {{"classification", TaskChoice::classification},
                  {"free-text", TaskChoice::free_text},
                  {"both", TaskChoice::both}},
                 "what is learned from the rows: their class, or a text");
    table.list(
        "settings", setting_names_,
        "settings to measure (the usual ones); curves: backpropagation and each head with each alpha; a "
        "wrong name lists all");
    table.integers("seeds", seeds_, 0, 1'000'000'000,
                   "a run for each: row order and LoRA initialisation (0)");
    options_.declare(table);
  }

  int run(OptionTable& table) override {
    if (options_.config) table.read(*options_.config);
    check_given(table);
    if (table.given("epochs")) options_.windows.reset();
    options_.complete(table);
    if (seeds_.empty()) seeds_ = {0};
    if (std::set<std::uint64_t>(seeds_.begin(), seeds_.end()).size() < seeds_.size()) {
      throw InputError("--seeds", "names a seed twice");
    }
    temporary_.emplace();
    const std::vector<LearningTask> tasks = chosen_tasks();
    block_interrupts();
    start_log(options_.log);
    prepare_compute();
    const InterruptWatch interrupts([] { spdlog::warn("stopping; interrupt again to stop at once"); });
    const auto stop = [&interrupts] { return interrupts.requested(); };
    try {
      for (const LearningTask task : tasks) measure(task, task_options(task, table), stop);
    } catch (const Interrupted&) {
      spdlog::warn("the same command goes on from here");
      return status_interrupted;
    }
    print(tasks);
    return status_done;
  }

 private:
  static void check_given(const OptionTable& table) {
    for (const std::string& flag : recipe_flags()) {
      if (table.given(flag)) {
        throw InputError("--" + flag, "is what settings differ in; choose among them with --settings");
      }
    }
    for (const auto& [flag, reason] : std::vector<std::pair<std::string, std::string>>{
             {"recipe", "is what settings differ in; choose among them with --settings"},
             {"seed", "give --seeds"},
             {"resume", "repeat the command with the same --out to go on"},
             {"placement", "learning does not depend on it; stages are threads here"},
             {"link", "learning does not depend on it; stages are threads here"},
             {"early-stop", "would stop settings at different windows; leave it away"},
             {"print-config", "belongs to train"}}) {
      if (table.given(flag)) throw InputError("--" + flag, reason);
    }
    if (!table.given("eval-data")) throw InputError("--eval-data", "is required: rows to measure on");
  }

  /// Those for which some setting is to be measured.
  [[nodiscard]] std::vector<LearningTask> chosen_tasks() const {
    std::vector<LearningTask> tasks;
    for (const LearningTask task : {LearningTask::classification, LearningTask::free_text}) {
      const TaskChoice only =
          task == LearningTask::classification ? TaskChoice::classification : TaskChoice::free_text;
      if (task_ != TaskChoice::both && task_ != only) continue;
      if (!settings_of(task).empty()) tasks.push_back(task);
    }
    return tasks;
  }

  [[nodiscard]] std::vector<LearningSetting> settings_of(LearningTask task) const {
    return chosen_settings(task, setting_names_, task_ == TaskChoice::both);
  }

  /// The options that all settings of a task share.
  [[nodiscard]] TrainOptions task_options(LearningTask task, const OptionTable& table) const {
    TrainOptions options = options_;
    if (task == LearningTask::classification) return options;
    const bool shaped = table.given("columns") || table.given("template");
    if (shaped && task_ == TaskChoice::both) {
      throw InputError("--task",
                       "'both' reads the same rows in two ways; with --columns or --template give one");
    }
    if (!table.given("accumulate")) options.accumulate = 2;  // answers have more than one token to learn from
    options.rows.labels.clear();
    if (shaped || options.rows.data->extension() != ".csv") return options;
    options.rows.columns = headline_columns;
    options.rows.prompt_template = temporary_->path() / "headline-template.txt";
    write_text_file(*options.rows.prompt_template, headline_template);
    return options;
  }

  void measure(LearningTask task, TrainOptions options, const std::function<bool()>& stop) {
    const TrainingSources sources = open_training_sources(options);
    const LearningTask found = learning_task(*sources.dataset, *sources.model.tokenizer,
                                             sources.prompt ? &*sources.prompt : nullptr);
    if (found != task) {
      throw InputError("--task", "the rows of " + options.rows.data->string() + " make " + task_name(found) +
                                     ", not " + task_name(task));
    }
    require_fast_sgemm();
    for (const std::string& warning : dataset_warnings(*sources.dataset)) spdlog::warn("{}", warning);
    std::optional<HeldOutScores> untrained;
    for (const LearningSetting& setting : settings_of(task)) {
      for (const std::uint64_t seed : seeds_) {
        options.seed = options.settings.seed = seed;
        TrainOptions applied = setting.applied_to(options, task);
        applied.out = *options.out / run_name(task, setting, seed);
        const TrainingInputs inputs = open_training_inputs(applied, sources);
        if (!untrained) {
          for (const std::string& note : window_notes(inputs, applied)) spdlog::info("{}", note);
          untrained = add_untrained(task, inputs);
        }
        spdlog::info("{}, {}, seed {}", task_name(task), setting.name, seed);
        const RunFolder folder(*applied.out);
        train(applied, inputs, folder, stop);
        LearningResult result = read_learning_result(folder, applied);
        result.task = task_name(task);
        result.setting = setting.name;
        result.held_out.insert(result.held_out.begin(), *untrained);
        results_.push_back(std::move(result));
      }
    }
  }

  /// Measures the model as it is.
  HeldOutScores add_untrained(LearningTask task, const TrainingInputs& inputs) {
    EvaluationPlan plan;
    plan.threads = std::clamp(std::thread::hardware_concurrency(), 1U, 2U);
    plan.label_answers = inputs.label_answers;
    const EvaluationResult scores = evaluate(*inputs.evaluation, plan, [&inputs] {
      return std::make_unique<CausalModel>(inputs.model.files, at::kFloat, LoraPlan{});
    });
    LearningResult result;
    result.task = task_name(task);
    result.setting = "untrained";
    result.held_out.push_back({0, scores.accuracy, scores.nll_label, scores.nll});
    results_.push_back(result);
    return result.held_out.back();
  }

  /// Brings the folder's run to its end, from wherever it is.
  static void train(const TrainOptions& options, const TrainingInputs& inputs, const RunFolder& folder,
                    const std::function<bool()>& stop) {
    const bool is_there = std::filesystem::exists(folder.record());
    if (is_there && is_finished(options, inputs, folder)) {
      spdlog::info("{} has it already", folder.path().string());
      return;
    }
    StartingPoint start =
        is_there ? start_resumed_run(options, inputs, folder) : start_new_run(options, inputs, folder);
    for (const std::string& warning : start.warnings) spdlog::warn("{}", warning);
    folder.create();
    TrainingSession session(options, inputs, folder, std::move(start), "the same command");
    const int status = session.run(stop, thread_runner(options, inputs));
    if (status == status_interrupted) throw Interrupted{};
    if (status != status_done) throw RunError("the run in " + folder.path().string() + " failed");
  }

  /// Throws InputError for a run that is another one.
  static bool is_finished(const TrainOptions& options, const TrainingInputs& inputs,
                          const RunFolder& folder) {
    const RunRecord record = folder.read_record();
    const RunRecord planned = planned_record(options, inputs);
    check_resumable(record, planned, folder.path());
    if (record.partition != planned.partition || record.last_window != planned.last_window) {
      throw InputError(
          "--out", folder.path().string() + " holds a run with other stages or windows; give another folder");
    }
    return record.status == RunRecord::Status::finished;
  }

  void print(const std::vector<LearningTask>& tasks) const {
    BenchResult table = learning_table(results_);
    const std::string json = learning_json(table, results_);
    write_text_file(*options_.out / "learning.json", json);
    std::string plots;
    for (const LearningTask task : tasks) {
      const std::filesystem::path file =
          *options_.out /
          (task == LearningTask::classification ? "learning-classification.svg" : "learning-free-text.svg");
      write_text_file(file, learning_plot(task_name(task), results_));
      plots += "plot: " + file.string() + "\n";
    }
    if (options_.json) {
      std::fputs(json.c_str(), stdout);
      return;
    }
    table.ratios.clear();
    const std::string text = table.to_table() + "\n" + learning_means(results_).to_table() + "\n" + plots;
    std::fputs(text.c_str(), stdout);
  }

  TrainOptions options_;
  std::optional<TemporaryFolder> temporary_;  // while it runs
  TaskChoice task_ = TaskChoice::both;
  std::vector<std::string> setting_names_;
  std::vector<std::uint64_t> seeds_;
  std::vector<LearningResult> results_;
};

}  // namespace

std::unique_ptr<Command> make_bench_learning_command() {
  return std::make_unique<BenchLearningCommand>();
}

}  // namespace zerolock
