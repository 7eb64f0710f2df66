/// zerolock bench stages: how the rate of each schedule grows with the number of stages.

#include <memory>

#include "apps/bench/compared_schedules.hpp"
#include "apps/bench/schedule_comparison.hpp"
#include "apps/command/command.hpp"
#include "apps/command/opened_model.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

class BenchStagesCommand : public Command {
 public:
  BenchStagesCommand() {
    options_.recipe = Recipe::none;
    options_.windows = 16;
    comparison_.schedules = compared_schedules();
    comparison_.compute = StageCompute::simulated;
  }

  [[nodiscard]] const char* name() const override { return "stages"; }
  [[nodiscard]] const char* summary() const override {
    return "rate and utilisation of each schedule over the number of stages, and what stages do when";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench stages --model SmolLM2-135M-Instruct.Q4_1.gguf --stage-counts 2,3,4,6,8 "
           "--speedup 10 --rounds 1 --out runs/stages";
  }

  void declare(OptionTable& table) override {
    options_.declare(table);
    comparison_.declare(table);
    table.integers("stage-counts", counts_, 2, 1024, "numbers of stages to try");
  }

  int run(OptionTable& table) override {
    for (const char* flag : {"schedule", "stages", "layers", "data", "resume", "epochs"}) {
      if (table.given(flag)) {
        throw InputError(std::string("--") + flag,
                         "is not for bench stages, which compares --schedules at each of --stage-counts "
                         "over full rows; leave it away");
      }
    }
    options_.complete_model(table);
    start_log(options_.log);
    prepare_compute();
    ScheduleComparison comparison(options_, comparison_, "stages");
    for (const std::uint64_t count : counts_) comparison.measure(count, options_.link);
    publish_comparison(
        comparison, options_, title(comparison.result()),
        {panel(comparison.result(), "Rate", "examples_per_second", "examples a second"),
         panel(comparison.result(), "Utilisation", "utilisation", "rate / that of the slowest stage alone")});
    return status_done;
  }

 private:
  static std::string title(const BenchResult& result) {
    return std::string("Schedules over stages") + (result.simulated ? " (simulated compute)" : "");
  }

  static PlotPanel panel(const BenchResult& result, const std::string& name, const std::string& column,
                         const std::string& unit) {
    return {name, "stages", unit, comparison_lines(result, "stages", column, {})};
  }

  TrainOptions options_;
  ComparisonOptions comparison_;
  std::vector<std::uint64_t> counts_{2, 3, 4, 6, 8};
};

}  // namespace

std::unique_ptr<Command> make_bench_stages_command() {
  return std::make_unique<BenchStagesCommand>();
}

}  // namespace zerolock
