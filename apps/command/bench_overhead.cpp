/// zerolock bench overhead: what the way through the actors costs a micro-batch when nothing is computed.

#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/command/bench_table.hpp"
#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/temporary_folder.hpp"
#include "supervision/local_cluster.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/simulated_backend.hpp"

namespace zerolock {

namespace {

/// The same small micro-batch at every position: 8 sequences of 4 rows.
class ConstantBatches : public MicroBatchProvider {
 public:
  ConstantBatches(std::uint64_t windows, std::uint64_t micro_batches)
      : windows_(windows), micro_batches_(micro_batches) {
    auto layout = std::make_shared<MicroBatchLayout>();
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
      layout->sequence_offsets.push_back((sequence + 1) * rows_each);
      layout->supervised_rows.push_back((sequence + 1) * rows_each - 2);
      layout->targets.push_back(0);
    }
    layout_ = std::move(layout);
    token_ids_ = at::zeros({sequences * rows_each}, at::kLong);
  }

  [[nodiscard]] WindowIndex last_window() const override { return WindowIndex{windows_}; }
  [[nodiscard]] std::uint64_t micro_batches(WindowIndex) const override { return micro_batches_; }
  [[nodiscard]] Entry make(const BatchPosition& position) const override {
    return Entry{position, Incarnation{0}, layout_, token_ids_};
  }

 private:
  static constexpr std::int64_t sequences = 8;
  static constexpr std::int64_t rows_each = 4;
  std::uint64_t windows_;
  std::uint64_t micro_batches_;
  std::shared_ptr<const MicroBatchLayout> layout_;
  at::Tensor token_ids_;
};

/// The simulated backend still makes and reads hidden states of this width: a few hundred numbers.
constexpr std::int64_t width = 8;

class BenchOverheadCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "overhead"; }
  [[nodiscard]] const char* summary() const override {
    return "cost of the actor path per micro-batch with nothing to compute";
  }
  [[nodiscard]] const char* example() const override { return "zerolock bench overhead --stages-max 4"; }

  void declare(OptionTable& table) override {
    table.integer("stages-max", stages_max_, 2, 64, "measure 2 stages to this many");
    table.integer("windows", windows_, 10, 1'000'000, "update windows of a run");
    table.integer("accumulate", accumulate_, 1, 4096, "micro-batches of a window");
    table.integer("depth", depth_, 1, 4096, "micro-batches in flight between two stages at most");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable&) override {
    start_log(log_);
    prepare_compute();
    BenchResult result;
    result.bench = "overhead";
    result.simulated = true;
    for (std::uint64_t stages = 2; stages <= stages_max_; ++stages) {
      // The difference of two lengths leaves out what a run costs once.
      const std::uint64_t fewer = windows_ / 10;
      const double once = run_once(stages, fewer);
      const double whole = run_once(stages, windows_);
      const double micro_batches = static_cast<double>((windows_ - fewer) * accumulate_);
      const double microseconds = (whole - once) / micro_batches * 1e6;
      result.rows.push_back({{"stages", stages},
                             {"micro_batches", windows_ * accumulate_},
                             {"seconds", whole},
                             {"us_per_micro_batch", microseconds},
                             {"us_per_micro_batch_and_stage", microseconds / static_cast<double>(stages)}});
    }
    const double first = result.rows.front()["us_per_micro_batch"].get<double>();
    const double last = result.rows.back()["us_per_micro_batch"].get<double>();
    result.ratios["cost of most stages to cost of 2"] = last / first;
    std::fputs((json_ ? result.to_json() : result.to_table()).c_str(), stdout);
    return status_done;
  }

 private:
  /// Seconds of a run.
  [[nodiscard]] double run_once(std::uint64_t stages, std::uint64_t windows) const {
    const TemporaryFolder folder;
    ClusterPlan plan;
    plan.run_id = "bench-overhead";
    plan.stages = stages;
    plan.last_window = WindowIndex{windows};
    plan.depth = depth_;
    plan.checkpoint_every = windows;
    plan.checkpoints = folder.path();
    std::vector<std::unique_ptr<MemoryAccount>> accounts;
    for (std::uint64_t stage = 0; stage < stages; ++stage)
      accounts.push_back(std::make_unique<MemoryAccount>());
    const BackendFactory make_backend = [](StageIndex stage, MemoryAccount&) {
      return make_simulated_backend(stage, width);
    };
    const auto begin = std::chrono::steady_clock::now();
    const ClusterOutcome outcome = run_local_cluster(
        plan, std::make_shared<ConstantBatches>(windows, accumulate_), make_backend, accounts,
        [] { return false; }, ClusterObserver{});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
    return seconds;
  }

  std::uint64_t stages_max_ = 4;
  std::uint64_t windows_ = 500;
  std::uint64_t accumulate_ = 4;
  std::uint64_t depth_ = 4;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_bench_overhead_command() {
  return std::make_unique<BenchOverheadCommand>();
}

}  // namespace zerolock
