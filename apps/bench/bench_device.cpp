/// zerolock bench device: stages as processes that take one record at a time, as on a phone: how long each
/// record takes in each, and what each process holds.

#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>

#include "apps/bench/filled_rows.hpp"
#include "apps/bench/results_folder.hpp"
#include "apps/bench/stage_delays.hpp"
#include "apps/command/cluster_runner.hpp"
#include "apps/command/command.hpp"
#include "apps/command/stage_trial.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/command/train_options.hpp"
#include "apps/report/bench_table.hpp"
#include "apps/report/svg_plot.hpp"
#include "supervision/executor_run.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

constexpr double mebibyte = 1024.0 * 1024.0;
constexpr std::uint64_t records_between_samples = 16;  // each reads a list of all mappings

class BenchDeviceCommand : public Command {
 public:
  /// The geometry of the paper's experiment on phones: 128 records, nine checkpoints of each
  /// stage, the first of them before the first record.
  BenchDeviceCommand() {
    options_.recipe = Recipe::none;
    options_.placement = StageHosting::processes;
    options_.batch = 1;
    options_.accumulate = 1;
    options_.windows = 128;
    options_.checkpoint_every = 16;
    options_.rank = 8;
    options_.settings.lora.alpha = 16;
    options_.settings.optimizer.learning_rate = 1e-4;
  }

  [[nodiscard]] const char* name() const override { return "device"; }
  [[nodiscard]] const char* summary() const override {
    return "stages as processes, one record at a time: time of a record in each, and memory of each process";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench device --model random:tinyllama-1.1b --layers 7,7,8 --base q8_0 --out "
           "runs/device\n\n"
           "step: forward, backward and optimizer step of a record. queue: from the end of the record "
           "before\n"
           "to this one's forward. total: both. Milliseconds; the first record is left out.";
  }

  void declare(OptionTable& table) override { options_.declare(table); }

  int run(OptionTable& table) override {
    for (const char* flag : {"schedule", "batch", "accumulate", "data", "resume", "epochs", "placement"}) {
      if (table.given(flag)) {
        throw InputError(std::string("--") + flag,
                         "is what bench device chooses itself: processes that take single full rows of --seq "
                         "tokens; leave it away");
      }
    }
    options_.complete_model(table);
    refuse_heads_of_rows(options_, "bench device");
    if (*options_.windows < 3) throw InputError("--windows", "at least 3 are needed");
    require_results_folder(options_.out);
    start_log(options_.log);
    prepare_compute();
    const TrainingInputs inputs = open_inputs();
    require_fast_sgemm();
    measure(inputs);
    std::fputs((options_.json ? result_.to_json() : result_.to_table()).c_str(), stdout);
    keep_results(options_.out, result_, svg_plot("Time of each record", panels()));
    return status_done;
  }

 private:
  [[nodiscard]] TrainingInputs open_inputs() const {
    TrainingInputs inputs;
    inputs.model = open_model(*options_.model);
    const ModelConfig& config = inputs.model.files->config();
    check_sequence_length(options_, config);
    inputs.partition = options_.partition(config.layers);
    inputs.settings = options_.stage_settings(inputs.partition.size(), {}, *options_.windows);
    inputs.batches =
        make_filled_rows({config.vocabulary, static_cast<std::int64_t>(options_.rows.sequence_length),
                          options_.batch, options_.accumulate, *options_.windows, options_.seed});
    try_stages(inputs);
    return inputs;
  }

  [[nodiscard]] ClusterPlan plan_of(const TrainingInputs& inputs, const std::filesystem::path& folder) const {
    ClusterPlan plan;
    plan.run_id = "bench-device";
    plan.session = "bench-device";
    plan.stages = inputs.partition.size();
    plan.last_window = inputs.batches->last_window();
    plan.depth = options_.depth;
    plan.buffer_bytes_max = options_.buffer_limit_mib * 1024 * 1024;
    plan.checkpoint_every = options_.checkpoint_every;
    plan.checkpoints = folder / "checkpoints";
    return plan;
  }

  void measure(const TrainingInputs& inputs) {
    const std::size_t stages = inputs.partition.size();
    delays_.resize(stages);
    const TemporaryFolder temporary;
    const RunFolder folder(temporary.path());
    std::chrono::steady_clock::time_point first;
    std::chrono::steady_clock::time_point last;
    ClusterObserver observer;
    observer.span = [this](const TraceSpan& span) { delays_.at(span.stage.value).add(span); };
    observer.window_committed = [&](const WindowReport& report) {
      if (report.stage.value + 1 != stages) return;
      last = std::chrono::steady_clock::now();
      if (report.window.value == 1) first = last;
      if (report.window.value % records_between_samples == 1) static_cast<void>(process_bytes_peak());
    };
    const ClusterRunner run =
        process_runner(options_, inputs, folder, parse_link_profile(options_.link, "--link"));
    const ClusterOutcome outcome = run(
        plan_of(inputs, temporary.path()), [] { return false; }, observer);
    if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
    result_.bench = "device";
    for (std::size_t stage = 0; stage < stages; ++stage) {
      add_row(stage, inputs.partition[stage], outcome.stages[stage]);
    }
    const double seconds = std::chrono::duration<double>(last - first).count();
    const std::uint64_t records = *options_.windows;
    result_.ratios["records"] = records;
    result_.ratios["records/s"] = seconds > 0 ? static_cast<double>(records - 1) / seconds : 0.0;
    result_.ratios["PSS of the coordinator's process, MiB"] =
        static_cast<double>(process_bytes_peak()) / mebibyte;
  }

  void add_row(std::size_t stage, const LayerRange& range, const StageOutcome& outcome) {
    const StageDelays& delays = delays_[stage];
    if (delays.records().empty()) throw RunError("stage " + std::to_string(stage) + " reported no times");
    std::vector<double> steps;
    std::vector<double> queues;
    std::vector<double> totals;
    for (const RecordDelay& record : delays.records()) {
      steps.push_back(record.step);
      queues.push_back(record.queue);
      totals.push_back(record.total());
    }
    nlohmann::ordered_json row = {
        {"stage", stage},
        {"layers", std::to_string(range.first) + "-" + std::to_string(range.last - 1)},
        {"step_ms_median", quantile(steps, 0.5)},
        {"step_ms_p95", quantile(steps, 0.95)},
        {"queue_ms_median", quantile(queues, 0.5)},
        {"queue_ms_p95", quantile(queues, 0.95)},
        {"total_ms_median", quantile(totals, 0.5)},
        {"total_ms_p95", quantile(totals, 0.95)},
        {"checkpoints", delays.checkpoints()},
        {"pss_MiB", static_cast<double>(outcome.process_bytes_peak) / mebibyte}};
    for (std::size_t index = 0; index < memory_component_count; ++index) {
      const auto component = static_cast<MemoryComponent>(index);
      row[std::string(to_string(component)) + "_MiB"] =
          static_cast<double>(outcome.peaks.of(component)) / mebibyte;
    }
    result_.rows.push_back(std::move(row));
  }

  [[nodiscard]] std::vector<PlotPanel> panels() const {
    PlotPanel steps{"step", "record", "ms", {}};
    PlotPanel totals{"queue and step", "record", "ms", {}};
    for (std::size_t stage = 0; stage < delays_.size(); ++stage) {
      PlotLine step{"stage " + std::to_string(stage), {}};
      PlotLine total = step;
      double number = 2;
      for (const RecordDelay& record : delays_[stage].records()) {
        step.points.emplace_back(number, record.step);
        total.points.emplace_back(number, record.total());
        ++number;
      }
      steps.lines.push_back(std::move(step));
      totals.lines.push_back(std::move(total));
    }
    return {steps, totals};
  }

  TrainOptions options_;
  std::vector<StageDelays> delays_;  // by stage
  BenchResult result_;
};

}  // namespace

std::unique_ptr<Command> make_bench_device_command() {
  return std::make_unique<BenchDeviceCommand>();
}

}  // namespace zerolock
