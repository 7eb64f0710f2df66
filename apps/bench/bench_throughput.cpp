/// zerolock bench throughput: how well training uses this machine.

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "apps/bench/clocks.hpp"
#include "apps/bench/measured_backend.hpp"
#include "apps/bench/schedule_comparison.hpp"
#include "apps/command/command.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/command/training_inputs.hpp"
#include "apps/report/bench_table.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

/// A run's steady part: from where the last stage committed its first window, so that all stages have work,
/// to where the first stage committed its last, after which they run dry one after another.
struct SteadyPart {
  Clocks begin;
  Clocks end;
  std::int64_t examples = 0;  // that the last stage finished in between
};

class BenchThroughputCommand : public Command {
 public:
  BenchThroughputCommand() {
    options_.windows = 8;
    options_.recipe = Recipe::none;  // what a recipe learns is not what is measured
  }

  [[nodiscard]] const char* name() const override { return "throughput"; }
  [[nodiscard]] const char* summary() const override {
    return "matrix products' share of a stage's time, use of the cores and examples/s while training; with "
           "--schedules, the rates of several";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench throughput --model SmolLM2-135M-Instruct.Q4_1.gguf "
           "--data configs/examples/topics-train.csv --stages 3 --windows 8";
  }

  void declare(OptionTable& table) override {
    options_.declare(table);
    comparison_.declare(table);
  }

  int run(OptionTable& table) override {
    if (options_.config) table.read(*options_.config);
    if (!comparison_.schedules.empty()) return compare(table);
    for (const char* flag : {"rounds", "split", "compute", "speedup", "medium", "calibration-runs"}) {
      if (table.given(flag)) {
        throw InputError(std::string("--") + flag,
                         "goes with --schedules in bench throughput; leave it away");
      }
    }
    if (table.given("out") || options_.resume)
      throw InputError("bench throughput", "keeps nothing unless it compares --schedules: leave --out away");
    const TemporaryFolder folder;
    options_.out = folder.path();
    if (table.given("epochs")) options_.windows.reset();
    options_.complete(table);
    start_log(options_.log);
    prepare_compute();
    const TrainingSources sources = open_training_sources(options_);
    const std::optional<RecipeReport> recipe =
        resolve_recipe(options_, sources, [&table](const std::string& flag) { return table.given(flag); });
    if (recipe) spdlog::info("{}", recipe->text());
    const TrainingInputs inputs = open_training_inputs(options_, sources);
    const double sgemm_gflops = require_fast_sgemm();
    const BenchResult result = measure(inputs, folder.path(), sgemm_gflops);
    std::fputs((options_.json ? result.to_json() : result.to_table()).c_str(), stdout);
    return status_done;
  }

 private:
  int compare(const OptionTable& table) {
    for (const char* flag : {"schedule", "data", "resume", "epochs"}) {
      if (table.given(flag)) {
        throw InputError(std::string("--") + flag,
                         "does not go with --schedules, which are compared over "
                         "full rows of --seq tokens; leave it away");
      }
    }
    options_.complete_model(table);
    start_log(options_.log);
    prepare_compute();
    ScheduleComparison comparison(options_, comparison_, "throughput");
    comparison.measure(options_.stage_count(), options_.link);
    publish_comparison(comparison, options_, "Schedules", {});
    return status_done;
  }

  [[nodiscard]] BenchResult measure(const TrainingInputs& inputs, const std::filesystem::path& folder,
                                    double sgemm_gflops) const {
    const std::size_t stages = inputs.partition.size();
    const WindowIndex last_window = inputs.batches->last_window();
    if (last_window.value < 3)
      throw InputError("--windows", "at least 3 windows are needed for a steady part");
    std::vector<StageUse> uses(stages);
    std::vector<std::unique_ptr<MemoryAccount>> accounts;
    for (std::size_t stage = 0; stage < stages; ++stage)
      accounts.push_back(std::make_unique<MemoryAccount>());
    const BackendFactory make_backend = [&uses, make = inputs.backend_factory()](StageIndex stage,
                                                                                 MemoryAccount& account) {
      return measured(make(stage, account), uses.at(stage.value));
    };
    SteadyPart steady;
    ClusterObserver observer;
    bool running = false;
    observer.window_committed = [&](const WindowReport& report) {
      const bool from_last_stage = report.stage.value + 1 == stages;
      if (running && from_last_stage) steady.examples += report.loss.examples;
      if (from_last_stage && report.window.value == 1) {
        running = true;
        steady.begin = Clocks::now();
      }
      if (report.stage.value == 0 && report.window == last_window) {
        steady.end = Clocks::now();
        running = false;
      }
    };
    const Clocks begin = Clocks::now();
    run_cluster(inputs, folder, make_backend, accounts, observer);
    const Clocks whole = Clocks::now() - begin;
    BenchResult result;
    result.bench = "throughput";
    double busy = 0;
    double gemm = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      result.rows.push_back(stage_row(stage, inputs.partition[stage], uses[stage]));
      busy += std::chrono::duration<double>(uses[stage].busy).count();
      gemm += std::chrono::duration<double>(uses[stage].gemm).count();
    }
    add_ratios(result, steady, whole);
    result.ratios["gemm share of the stages' time"] = busy > 0 ? gemm / busy : 0.0;
    result.ratios["sgemm of one core alone, GFLOP/s"] = sgemm_gflops;
    return result;
  }

  static nlohmann::ordered_json stage_row(std::size_t stage, const LayerRange& range, const StageUse& use) {
    const double busy = std::chrono::duration<double>(use.busy).count();
    const double gemm = std::chrono::duration<double>(use.gemm).count();
    return {{"stage", stage},
            {"layers", std::to_string(range.first) + "-" + std::to_string(range.last - 1)},
            {"busy_seconds", busy},
            {"gemm_seconds", gemm},
            {"gemm_share", busy > 0 ? gemm / busy : 0.0},
            {"gemm_gflops", gemm > 0 ? use.flops / gemm * 1e-9 : 0.0}};
  }

  static void add_ratios(BenchResult& result, const SteadyPart& steady, const Clocks& whole) {
    const double cores = std::max(1U, std::thread::hardware_concurrency());
    const Clocks between = steady.end - steady.begin;
    if (between.wall > 0) {
      result.ratios["use of all cores, steady"] = between.cpu / between.wall / cores;
      result.ratios["examples/s, steady"] = static_cast<double>(steady.examples) / between.wall;
    }
    result.ratios["use of all cores, whole run"] = whole.cpu / whole.wall / cores;
    result.ratios["cores"] = cores;
  }

  void run_cluster(const TrainingInputs& inputs, const std::filesystem::path& folder,
                   const BackendFactory& make_backend, std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                   const ClusterObserver& observer) const {
    ClusterPlan plan;
    plan.run_id = "bench-throughput";
    plan.schedule = options_.schedule;
    plan.stages = inputs.partition.size();
    plan.last_window = inputs.batches->last_window();
    plan.depth = options_.depth;
    plan.buffer_bytes_max = options_.buffer_limit_mib * 1024 * 1024;
    plan.checkpoint_every = options_.checkpoint_every;
    plan.checkpoints = folder;
    plan.calibrate = inputs.needs_calibration;
    const ClusterOutcome outcome = run_local_cluster(
        plan, inputs.batches, make_backend, accounts, [] { return false; }, observer);
    if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
  }

  TrainOptions options_;
  ComparisonOptions comparison_;  // without schedules: one schedule is looked at closely
};

}  // namespace

std::unique_ptr<Command> make_bench_throughput_command() {
  return std::make_unique<BenchThroughputCommand>();
}

}  // namespace zerolock
