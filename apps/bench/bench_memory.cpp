/// zerolock bench memory: what each schedule's stages hold at most, by component, for micro-batches of
/// different sizes in a window of given size.

#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "apps/bench/compared_schedules.hpp"
#include "apps/bench/filled_rows.hpp"
#include "apps/bench/results_folder.hpp"
#include "apps/command/command.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/random_model.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/command/train_options.hpp"
#include "apps/report/bench_table.hpp"
#include "apps/report/svg_plot.hpp"
#include "supervision/local_cluster.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

namespace {

constexpr double mebibyte = 1024.0 * 1024.0;
/// The second has the weights of before the first one's step still in use, where a schedule stashes them, and
/// the first one's entries still in the buffers, where a schedule keeps them.
constexpr std::uint64_t windows_trained = 2;

/// One window of so many examples, cut into micro-batches.
struct Geometry {
  std::uint64_t examples = 0;
  std::uint64_t batch = 0;
  [[nodiscard]] std::uint64_t micro_batches() const { return examples / batch; }
};

class BenchMemoryCommand : public Command {
 public:
  BenchMemoryCommand() {
    options_.recipe = Recipe::none;
    options_.windows = windows_trained;
  }

  [[nodiscard]] const char* name() const override { return "memory"; }
  [[nodiscard]] const char* summary() const override {
    return "peak memory of each stage by component: zerolock, gpipe, 1f1b and pipedream";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench memory --model SmolLM2-135M-Instruct.Q4_1.gguf --stages 3 --examples 32,128 "
           "--batches 1,2,4,8 --out runs/memory";
  }

  void declare(OptionTable& table) override {
    options_.declare(table);
    table.integers("examples", examples_, 1, 65536, "examples of a window (B)");
    table.integers("batches", batches_, 1, 65536, "examples of a micro-batch (b); those that divide B");
    declare_schedules(table, schedules_, "schedules to measure; ratios are zerolock's to each of the others");
    table.real("memory-limit", limit_mib_, {0, 1e9, false},
               "MiB that a stage may take: from which b on it takes more");
  }

  int run(OptionTable& table) override {
    for (const char* flag : {"schedule", "batch", "accumulate", "data", "resume", "epochs", "windows"}) {
      if (table.given(flag)) {
        throw InputError(std::string("--") + flag,
                         "is what bench memory chooses itself, over rows of --seq tokens; leave it away");
      }
    }
    options_.complete_model(table);
    if (options_.settings.embed_at == EmbedAt::source) {
      throw InputError("--embed-at", "bench memory measures stages that embed themselves; leave it away");
    }
    refuse_heads_of_rows(options_, "bench memory");
    require_results_folder(options_.out);
    start_log(options_.log);
    prepare_compute();
    const auto model = ModelFiles::open(model_location(*options_.model));
    const std::vector<LayerRange> partition = options_.partition(model->config().layers);
    const TrainingSettings settings = options_.stage_settings(partition.size(), {}, windows_trained);
    for (const Geometry& geometry : geometries()) {
      for (const TrainingSchedule schedule : schedules_)
        measure(model, partition, settings, geometry, schedule);
    }
    compare();
    std::fputs((options_.json ? result_.to_json() : result_.to_table()).c_str(), stdout);
    keep_results(options_.out, result_, svg_plot("Peak memory of the largest stage", panels()));
    return status_done;
  }

 private:
  /// Throws InputError if no b divides a B.
  [[nodiscard]] std::vector<Geometry> geometries() const {
    std::vector<Geometry> found;
    for (const std::uint64_t examples : examples_) {
      const std::size_t before = found.size();
      for (const std::uint64_t batch : batches_) {
        if (examples % batch == 0) found.push_back({examples, batch});
      }
      if (found.size() == before) {
        throw InputError("--batches", "none divides " + std::to_string(examples) + " examples");
      }
    }
    return found;
  }

  void measure(const std::shared_ptr<const ModelFiles>& model, const std::vector<LayerRange>& partition,
               const TrainingSettings& settings, const Geometry& geometry, TrainingSchedule schedule) {
    const std::size_t stages = partition.size();
    std::vector<std::unique_ptr<MemoryAccount>> accounts;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      accounts.push_back(std::make_unique<MemoryAccount>());
    }
    const GradientReach reach = gradient_reach(schedule);
    const TrainingSettings used = settings_under(schedule, settings);
    const BackendFactory make_backend = [&](StageIndex stage, MemoryAccount& account) {
      at::set_num_threads(1);
      return make_chunk_backend(model, stage, partition, used, account, reach);
    };
    const auto rows = make_filled_rows(
        {model->config().vocabulary, static_cast<std::int64_t>(options_.rows.sequence_length), geometry.batch,
         geometry.micro_batches(), windows_trained, options_.seed});
    const TemporaryFolder folder;
    ClusterPlan plan;
    plan.run_id = "bench-memory";
    plan.stages = stages;
    plan.schedule = schedule;
    plan.last_window = rows->last_window();
    plan.depth = options_.depth;
    plan.buffer_bytes_max = options_.buffer_limit_mib * 1024 * 1024;
    plan.checkpoints = folder.path();
    const ClusterOutcome outcome =
        run_local_cluster(plan, rows, make_backend, accounts, [] { return false; }, {});
    if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      add_row(geometry, schedule, stage, outcome.stages[stage].peaks);
    }
    spdlog::info("B {} b {} {}: {:.1f} MiB", geometry.examples, geometry.batch, to_string(schedule),
                 largest_.at({geometry.examples, geometry.batch, schedule}));
  }

  void add_row(const Geometry& geometry, TrainingSchedule schedule, std::size_t stage,
               const MemoryPeaks& peaks) {
    nlohmann::ordered_json row = {{"examples", geometry.examples},
                                  {"batch", geometry.batch},
                                  {"micro_batches", geometry.micro_batches()},
                                  {"schedule", std::string(to_string(schedule))},
                                  {"stage", stage}};
    for (std::size_t index = 0; index < memory_component_count; ++index) {
      const auto component = static_cast<MemoryComponent>(index);
      row[std::string(to_string(component)) + "_MiB"] = static_cast<double>(peaks.of(component)) / mebibyte;
    }
    const double total = static_cast<double>(peaks.total) / mebibyte;
    row["total_MiB"] = total;
    result_.rows.push_back(row);
    double& largest = largest_[{geometry.examples, geometry.batch, schedule}];
    largest = std::max(largest, total);
  }

  /// The largest stage of zerolock against those of the others, and where the limit is exceeded.
  void compare() {
    result_.bench = "memory";
    for (const Geometry& geometry : geometries()) {
      const auto zerolock = largest_.find({geometry.examples, geometry.batch, TrainingSchedule::zerolock});
      if (zerolock == largest_.end()) break;
      const double own = zerolock->second;
      for (const TrainingSchedule schedule : schedules_) {
        if (schedule == TrainingSchedule::zerolock) continue;
        result_.ratios["zerolock / " + std::string(to_string(schedule)) + ", largest stage, B " +
                       std::to_string(geometry.examples) + " b " + std::to_string(geometry.batch)] =
            own / largest_.at({geometry.examples, geometry.batch, schedule});
      }
    }
    if (limit_mib_ == 0) return;
    for (const std::uint64_t examples : examples_) {
      for (const TrainingSchedule schedule : schedules_) {
        result_.ratios["b from which " + std::string(to_string(schedule)) + " exceeds the limit, B " +
                       std::to_string(examples)] = first_beyond(examples, schedule);
      }
    }
  }

  [[nodiscard]] nlohmann::ordered_json first_beyond(std::uint64_t examples, TrainingSchedule schedule) const {
    for (const auto& [key, total] : largest_) {  // ascending in b
      if (std::get<0>(key) == examples && std::get<2>(key) == schedule && total > limit_mib_) {
        return std::get<1>(key);
      }
    }
    return nullptr;
  }

  [[nodiscard]] std::vector<PlotPanel> panels() const {
    std::vector<PlotPanel> all;
    for (const std::uint64_t examples : examples_) {
      PlotPanel panel{"B = " + std::to_string(examples), "examples of a micro-batch (b)", "MiB", {}};
      for (const TrainingSchedule schedule : schedules_) {
        PlotLine line{std::string(to_string(schedule)), {}};
        for (const auto& [key, total] : largest_) {
          if (std::get<0>(key) != examples || std::get<2>(key) != schedule) continue;
          line.points.emplace_back(static_cast<double>(std::get<1>(key)), total);
        }
        panel.lines.push_back(std::move(line));
      }
      all.push_back(std::move(panel));
    }
    return all;
  }

  TrainOptions options_;
  std::vector<std::uint64_t> examples_{32, 128};
  std::vector<std::uint64_t> batches_{1, 2, 4, 8};
  std::vector<TrainingSchedule> schedules_ = compared_schedules();
  double limit_mib_ = 0;  // 0: none
  BenchResult result_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, TrainingSchedule>, double> largest_;  // MiB
};

}  // namespace

std::unique_ptr<Command> make_bench_memory_command() {
  return std::make_unique<BenchMemoryCommand>();
}

}  // namespace zerolock
