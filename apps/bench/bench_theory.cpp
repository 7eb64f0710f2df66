/// zerolock bench theory: what the convergence theory of local losses assumes, on a real run.

#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>

#include "apps/bench/bench_theory_results.hpp"
#include "apps/bench/results_folder.hpp"
#include "apps/command/command.hpp"
#include "apps/command/training_inputs.hpp"
#include "data/batch_plan.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"
#include "tensors/training/calibration.hpp"
#include "tensors/training/learning_rate.hpp"

namespace zerolock {

namespace {

const std::vector<std::pair<LossForm, std::string>> objective_names{
    {LossForm::weighted_terms, "weighted"},
    {LossForm::target_cross_entropy, "geometric-mean"},
    {LossForm::target_divergence, "reverse-kl"}};

std::string objective_name(LossForm form) {
  for (const auto& [known, name] : objective_names) {
    if (known == form) return name;
  }
  return "unknown";
}

/// All stages of a run, one after another in one thread: the numbers of the actors' run.
class StagesInTurn {
 public:
  explicit StagesInTurn(const TrainingInputs& inputs) : inputs_(inputs) {
    const BackendFactory make_backend = inputs.backend_factory();
    for (std::size_t stage = 0; stage < inputs.partition.size(); ++stage) {
      accounts_.push_back(std::make_unique<MemoryAccount>());
      backends_.push_back(make_backend(StageIndex{stage}, *accounts_.back()));
    }
    std::vector<StageBackend*> stages;
    for (const auto& backend : backends_) stages.push_back(backend.get());
    static_cast<void>(calibrate(stages, entries_of(*inputs.batches, WindowIndex{0})));
  }

  static std::vector<Entry> entries_of(const MicroBatchProvider& batches, WindowIndex window) {
    std::vector<Entry> entries;
    for (std::uint64_t i = 0; i < batches.micro_batches(window); ++i)
      entries.push_back(batches.make({window, i}));
    return entries;
  }

  void train(WindowIndex window) {
    for (Entry entry : entries_of(*inputs_.batches, window)) {
      for (const auto& backend : backends_) {
        entry.payload = backend->begin(entry);
        backend->finish(entry.position);
      }
    }
    for (const auto& backend : backends_) backend->step(window);
  }

  [[nodiscard]] std::vector<StageState> states() const {
    std::vector<StageState> states;
    for (const auto& backend : backends_) states.push_back(backend->state());
    return states;
  }

 private:
  const TrainingInputs& inputs_;
  std::vector<std::unique_ptr<MemoryAccount>> accounts_;
  std::vector<std::unique_ptr<StageBackend>> backends_;
};

class BenchTheoryCommand : public Command {
 public:
  BenchTheoryCommand() {
    options_.recipe = Recipe::none;
    options_.windows = 16;
    // What the theorem is about: SGD at eta_0 / sqrt(t + gamma), and a loss with both terms.
    options_.settings.loss.alpha = 0.5;
    options_.settings.optimizer.kind = OptimizerKind::sgd;
    options_.settings.optimizer.schedule = ScheduleKind::inverse_sqrt;
    options_.settings.optimizer.learning_rate = 1e-3;
    options_.settings.optimizer.weight_decay = 0;
  }

  [[nodiscard]] const char* name() const override { return "theory"; }
  [[nodiscard]] const char* summary() const override {
    return "local objectives, their gradients, distances to their targets and drift, window by window";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench theory --model SmolLM2-135M-Instruct.Q4_1.gguf "
           "--data configs/examples/topics-train.csv --windows 16 --out runs/theory\n\n"
           "docs/theory.md says what each number is. --out gets theory.json and theory.svg. Without "
           "--objective the weighted and the reverse-kl one are measured.";
  }

  void declare(OptionTable& table) override {
    options_.declare(table);
    table.integer("probe", probe_rows_, 1, 1'000'000,
                  "rows that are measured on: the first of --eval-data, or of --data");
  }

  int run(OptionTable& table) override {
    if (options_.config) table.read(*options_.config);
    check_given(table);
    if (table.given("epochs")) options_.windows.reset();
    options_.complete(table);
    options_.require_own_losses("bench theory");
    require_results_folder(options_.out);
    start_log(options_.log);
    prepare_compute();
    const TrainingSources sources = open_training_sources(options_);
    static_cast<void>(
        resolve_recipe(options_, sources, [&table](const std::string& flag) { return table.given(flag); }));
    require_fast_sgemm();
    std::vector<LossForm> forms{LossForm::weighted_terms, LossForm::target_divergence};
    if (table.given("objective")) forms = {options_.settings.loss.form};
    std::vector<TheoryRun> runs;
    for (const LossForm form : forms) {
      options_.settings.loss.form = form;
      runs.push_back(measure(open_training_inputs(options_, sources)));
    }
    print(runs);
    return status_done;
  }

 private:
  static void check_given(const OptionTable& table) {
    for (const auto& [flag, reason] : std::vector<std::pair<std::string, std::string>>{
             {"resume", "bench theory begins anew each time"},
             {"placement", "the numbers do not depend on it; stages take turns in one thread here"},
             {"early-stop", "would leave windows out"},
             {"print-config", "belongs to train"}}) {
      if (table.given(flag)) throw InputError("--" + flag, reason);
    }
  }

  [[nodiscard]] std::vector<Entry> probe_entries(const TrainingInputs& inputs) const {
    BatchPlanOptions plan;
    plan.batch = options_.batch;
    plan.accumulate = 1;
    plan.shuffle = false;
    plan.calibration_rows = probe_rows_;  // window 0 holds the first rows in order
    const auto rows = make_batch_plan(inputs.evaluation ? inputs.evaluation : inputs.dataset, plan);
    return StagesInTurn::entries_of(*rows, WindowIndex{0});
  }

  [[nodiscard]] TheoryRun measure(const TrainingInputs& inputs) const {
    TheoryRun run;
    run.objective = objective_name(inputs.settings.loss.form);
    TheoryProbe probe(inputs.model.files, inputs.partition, inputs.settings, probe_entries(inputs));
    StagesInTurn stages(inputs);
    run.windows.push_back({0, 0, probe.measure(stages.states())});
    for (std::uint64_t w = 1; w <= inputs.batches->last_window().value; ++w) {
      const WindowIndex window{w};
      stages.train(window);
      run.windows.push_back(
          {w, learning_rate_at(inputs.settings.optimizer, window), probe.measure(stages.states())});
      spdlog::info("{}, window {}: R {:.5f}, gradient {:.4g}, delta {:.4f}, drift {:+.3g}", run.objective, w,
                   run.windows.back().point.loss(), run.windows.back().point.gradient_norm(),
                   run.windows.back().point.target_distance(), run.windows.back().point.drift());
    }
    return run;
  }

  void print(const std::vector<TheoryRun>& runs) const {
    const BenchResult table = theory_table(runs);
    std::fputs((options_.json ? table.to_json() : theory_summary(table).to_table()).c_str(), stdout);
    keep_results(options_.out, table, theory_plot(runs));
  }

  TrainOptions options_;
  std::uint64_t probe_rows_ = 32;
};

}  // namespace

std::unique_ptr<Command> make_bench_theory_command() {
  return std::make_unique<BenchTheoryCommand>();
}

}  // namespace zerolock
