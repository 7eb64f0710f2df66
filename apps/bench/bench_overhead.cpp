/// zerolock bench overhead: what the way through actors and links costs a micro-batch when nothing is
/// computed.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "apps/bench/clocks.hpp"
#include "apps/bench/constant_batches.hpp"
#include "apps/bench/loopback_boundary.hpp"
#include "apps/bench/results_folder.hpp"
#include "apps/bench/schedule_figures.hpp"
#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/report/bench_table.hpp"
#include "apps/report/svg_plot.hpp"
#include "supervision/local_cluster.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

/// Sends the same bytes on, whatever comes.
class IdleBackend final : public StageBackend {
 public:
  explicit IdleBackend(at::Tensor payload) : payload_(std::move(payload)) {}

  at::Tensor begin(const Entry&) override { return payload_; }
  LossReport finish(const BatchPosition&) override {
    ++finished_;
    return {};
  }
  StepReport step(WindowIndex window) override {
    committed_ = window;
    StepReport report;
    report.micro_batches = std::exchange(finished_, 0);
    return report;
  }
  [[nodiscard]] StageState state() const override {
    StageState state;
    state.window = committed_;
    state.tensors["lora.idle"] = at::zeros({1}, at::kFloat);
    return state;
  }
  void restore(const StageState& state) override { committed_ = state.window; }

 private:
  at::Tensor payload_;
  std::int64_t finished_ = 0;
  WindowIndex committed_;
};

class BenchOverheadCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "overhead"; }
  [[nodiscard]] const char* summary() const override {
    return "cost of the way through actors and links per micro-batch with nothing to compute";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench overhead --stage-counts 2,4,8,16 --entry-bytes 1,65536,16777216";
  }

  void declare(OptionTable& table) override {
    table.integers("stage-counts", counts_, 2, 1024, "numbers of stages to try, with the smallest entries");
    table.integers("entry-bytes", sizes_, 1, largest_entry,
                   "sizes of entries to try, with four stages and over a connection");
    table.integer(
        "windows", windows_, 10, 1'000'000,
        "update windows with four stages and fewer; with more stages accordingly fewer, at least 40");
    table.integer("accumulate", accumulate_, 1, 4096, "micro-batches of a window");
    table.integer("depth", depth_, 1, 4096, "micro-batches in flight between two stages at most");
    table.integer("rounds", rounds_, 1, 1000, "of all runs, in turn; medians are printed");
    table.path("out", out_, "folder for overhead.json and overhead.svg");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable&) override {
    require_results_folder(out_);
    start_log(log_);
    prepare_compute();
    std::vector<Way> ways = all_ways();
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      for (Way& way : ways) measure(way);
    }
    BenchResult result;
    result.bench = "overhead";
    result.simulated = true;
    for (const Way& way : ways) result.rows.push_back(row_of(way));
    add_ratios(result, ways);
    std::fputs((json_ ? result.to_json() : result.to_table()).c_str(), stdout);
    keep_results(out_, result, svg_plot("A micro-batch with nothing to compute", panels(ways)));
    return status_done;
  }

 private:
  /// One line of the table: stages of one process, or one boundary between two.
  struct Way {
    std::uint64_t stages = 0;  // 0: a boundary over loopback
    std::uint64_t entry_bytes = 1;
    std::vector<double> wall;  // microseconds of a micro-batch, of each round
    std::vector<double> cpu;
  };

  [[nodiscard]] std::vector<Way> all_ways() const {
    std::vector<Way> ways;
    const std::uint64_t smallest = *std::min_element(sizes_.begin(), sizes_.end());
    for (const std::uint64_t stages : counts_) ways.push_back({stages, smallest, {}, {}});
    for (const std::uint64_t bytes : sizes_) {
      const bool known = std::any_of(ways.begin(), ways.end(), [&](const Way& way) {
        return way.stages == stages_of_sizes && way.entry_bytes == bytes;
      });
      if (!known) ways.push_back({stages_of_sizes, bytes, {}, {}});
    }
    for (const std::uint64_t bytes : sizes_) {
      ways.push_back({0, std::max(bytes, std::uint64_t{sizeof(float)}), {}, {}});
    }
    return ways;
  }

  [[nodiscard]] std::uint64_t windows_of(std::uint64_t stages) const {
    return std::max(windows_ * stages_of_sizes / std::max(stages, stages_of_sizes), windows_min);
  }

  void measure(Way& way) const {
    if (way.stages == 0) return measure_boundary(way);
    // The difference of two lengths leaves out what a run costs once.
    const std::uint64_t windows = windows_of(way.stages);
    const std::uint64_t fewer = windows / 10;
    const Clocks once = run_once(way, fewer);
    const Clocks whole = run_once(way, windows) - once;
    const auto micro_batches = static_cast<double>((windows - fewer) * accumulate_);
    way.wall.push_back(whole.wall / micro_batches * 1e6);
    way.cpu.push_back(whole.cpu / micro_batches * 1e6);
  }

  [[nodiscard]] Clocks run_once(const Way& way, std::uint64_t windows) const {
    const TemporaryFolder folder;
    ClusterPlan plan;
    plan.run_id = "bench-overhead";
    plan.stages = way.stages;
    plan.last_window = WindowIndex{windows};
    plan.depth = depth_;
    plan.buffer_bytes_max = std::size_t{1} << 60;  // all entries are one tensor
    plan.checkpoint_every = windows;
    plan.checkpoints = folder.path();
    std::vector<std::unique_ptr<MemoryAccount>> accounts;
    for (std::uint64_t stage = 0; stage < way.stages; ++stage)
      accounts.push_back(std::make_unique<MemoryAccount>());
    const at::Tensor payload = at::zeros({static_cast<std::int64_t>(way.entry_bytes)}, at::kByte);
    const BackendFactory make_backend = [&payload](StageIndex, MemoryAccount&) {
      return std::make_unique<IdleBackend>(payload);
    };
    const Clocks begin = Clocks::now();
    const ClusterOutcome outcome = run_local_cluster(
        plan, make_constant_batches(windows, accumulate_, 1), make_backend, accounts, [] { return false; },
        ClusterObserver{});
    if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
    return Clocks::now() - begin;
  }

  /// Framed, sent, received and credited as between two processes; both ends count.
  void measure_boundary(Way& way) const {
    const auto width = static_cast<std::int64_t>(way.entry_bytes / sizeof(float));
    auto layout = std::make_shared<MicroBatchLayout>();
    layout->sequence_offsets = {0, 1};
    const Entry entry{{WindowIndex{1}, 0}, Incarnation{1}, layout, at::zeros({1, width}, at::kFloat)};
    LoopbackBoundary::Setup setup;
    setup.terms.limits = {1, 1, width, 0, at::kFloat};
    setup.terms.depth = depth_;
    setup.terms.buffer_bytes_max = (depth_ + 1) * (way.entry_bytes + 4096);
    LoopbackBoundary boundary(setup);
    const std::uint64_t count =
        std::clamp(bytes_of_transfer / way.entry_bytes, std::uint64_t{16}, windows_ * accumulate_);
    boundary.transfer(entry, count / 4 + 1);  // memory and congestion windows become warm
    const Clocks begin = Clocks::now();
    const double seconds = boundary.transfer(entry, count);
    way.wall.push_back(seconds / static_cast<double>(count) * 1e6);
    way.cpu.push_back((Clocks::now() - begin).cpu / static_cast<double>(count) * 1e6);
  }

  [[nodiscard]] nlohmann::ordered_json row_of(const Way& way) const {
    const Spread wall = spread_of(way.wall);
    const auto each = static_cast<double>(std::max<std::uint64_t>(way.stages, 1));
    return {{"way", way.stages == 0 ? "connection" : "actors"},
            {"stages", way.stages == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(way.stages)},
            {"entry_bytes", way.entry_bytes},
            {"us_per_micro_batch", wall.median},
            {"least", wall.least},
            {"most", wall.most},
            {"us_per_micro_batch_and_stage", wall.median / each},
            {"cpu_us_per_micro_batch_and_stage", spread_of(way.cpu).median / each}};
  }

  [[nodiscard]] std::vector<PlotPanel> panels(const std::vector<Way>& ways) const {
    PlotLine all_stages{"actors of one process", {}};
    PlotLine four_stages{"actors of " + std::to_string(stages_of_sizes) + " stages", {}};
    PlotLine boundary{"one connection", {}};
    for (const Way& way : ways) {
      const double wall = spread_of(way.wall).median;
      const auto bytes = static_cast<double>(way.entry_bytes);
      if (way.stages == 0) {
        boundary.points.emplace_back(bytes, wall);
        continue;
      }
      if (way.entry_bytes == ways.front().entry_bytes) {
        all_stages.points.emplace_back(static_cast<double>(way.stages), wall);
      }
      if (way.stages == stages_of_sizes) four_stages.points.emplace_back(bytes, wall);
    }
    return {{"Entries of " + std::to_string(ways.front().entry_bytes) + " bytes",
             "stages",
             "microseconds",
             {std::move(all_stages)}},
            {"Entries of different sizes",
             "bytes",
             "microseconds",
             {std::move(four_stages), std::move(boundary)}}};
  }

  void add_ratios(BenchResult& result, const std::vector<Way>& ways) const {
    std::vector<std::pair<double, double>> wall;
    std::vector<std::pair<double, double>> cpu;
    for (const Way& way : ways) {
      if (way.stages == 0 || way.entry_bytes != ways.front().entry_bytes) continue;
      wall.emplace_back(static_cast<double>(way.stages), spread_of(way.wall).median);
      cpu.emplace_back(static_cast<double>(way.stages), spread_of(way.cpu).median);
    }
    if (wall.size() < 2) return;
    // 1: the cost of a micro-batch is linear in the stages; 2: quadratic.
    result.ratios["growth with stages, exponent"] = growth_exponent(wall);
    result.ratios["growth with stages, exponent, by CPU time"] = growth_exponent(cpu);
  }

  static constexpr std::uint64_t stages_of_sizes = 4;
  static constexpr std::uint64_t windows_min = 40;
  static constexpr std::uint64_t largest_entry = std::uint64_t{1} << 30;
  static constexpr std::uint64_t bytes_of_transfer = std::uint64_t{256} << 20;  // of a large entry's round

  std::vector<std::uint64_t> counts_{2, 4, 8, 16, 32, 64, 128, 256};
  std::vector<std::uint64_t> sizes_{1, 1024, 65536, 1048576, 16777216};
  std::uint64_t windows_ = 500;
  std::uint64_t accumulate_ = 4;
  std::uint64_t depth_ = 4;
  std::uint64_t rounds_ = 3;
  std::optional<std::filesystem::path> out_;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_bench_overhead_command() {
  return std::make_unique<BenchOverheadCommand>();
}

}  // namespace zerolock
