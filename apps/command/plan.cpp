/// zerolock plan: the partition of a run, with each stage's memory and time, before anything is trained.

#include <spdlog/spdlog.h>

#include <cstdio>
#include <optional>

#include "apps/command/command.hpp"
#include "apps/command/executor_list.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/plan_inputs.hpp"
#include "apps/command/plan_report.hpp"
#include "apps/command/train_options.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

class PlanCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "plan"; }
  [[nodiscard]] const char* summary() const override {
    return "the partition for a run: layers, memory and predicted time of each stage, and why";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock plan --model SmolLM2-135M-Instruct.Q4_1.gguf --stages 3 --measure\n\n"
           "Takes the flags of train, which decide what a stage costs. --executors names a file like\n"
           "  [[executor]]\n"
           "  name = \"laptop\"\n"
           "  memory = \"4GiB\"      # none: no limit\n"
           "  cores = 2            # each stage takes one; cores beyond the stages count for nothing (1)\n"
           "  threads = 1          # or so many, as its executor's --threads (1)\n"
           "  gflops = 80          # fp32, of one core; for all executors or for none\n"
           "  link = \"1Gbit/s\"     # none: does not count\n"
           "Without it all stages are on this machine. Memory is what stages need, at most; the program "
           "itself takes some 150 MB more for each process.";
  }

  void declare(OptionTable& table) override {
    table.path("executors", executors_, "TOML file with the devices to plan for",
               OptionTable::Kept::on_command_line_only);
    table.flag("measure", measure_, "time small stages on this machine instead of counting products",
               OptionTable::Kept::on_command_line_only);
    options_.declare(table);
  }

  int run(OptionTable& table) override {
    if (options_.config) table.read(*options_.config);
    if (options_.resume) throw InputError("--resume", "a plan continues no run; leave --resume away");
    const bool stages_given = table.given("stages") || table.given("layers");
    options_.complete_model(table);
    options_.require_own_losses("a plan");
    start_log(options_.log);
    prepare_compute();
    const double rate = require_fast_sgemm() * 1e9;
    const std::vector<PlanningExecutor> executors =
        executors_ ? read_executors(*executors_, rate) : std::vector{this_machine(rate)};
    if (executors_ && !stages_given) options_.stages = executors.size();
    const auto by_hand = [&table](const std::string& flag) { return table.given(flag); };
    PlanInputs inputs = open_plan_inputs(options_, options_.stage_count(), executors_.has_value(), by_hand);
    for (const std::string& note : inputs.notes) spdlog::info("{}", note);
    const std::vector<LayerRange> layers = options_.partition(inputs.sizes.config.layers);
    const std::vector<LayerRange> fixed = options_.layers.empty() ? std::vector<LayerRange>{} : layers;
    StageTimes times(inputs.model, inputs.settings, inputs.samples, inputs.buffers.accumulate);
    const nlohmann::ordered_json report =
        plan_report(inputs, executors, fixed, measure_ ? measured(times, rate) : counted(inputs));
    std::fputs((options_.json ? report.dump() + "\n" : plan_text(report)).c_str(), stdout);
    return status_done;
  }

 private:
  static PlanCosts counted(const PlanInputs& inputs) {
    return {[&inputs](const PlannedStage& stage) { return inputs.operations(stage).total(); }, false, {}};
  }

  /// Seconds of this machine; executors are faster or slower by their rates.
  static PlanCosts measured(StageTimes& times, double rate) {
    return {
        [&times, rate](const PlannedStage& stage) { return times.of(stage).of(stage.layers.count()) * rate; },
        true, [&times](const PlannedStage& stage) -> const StageSeconds& { return times.of(stage); }};
  }

  TrainOptions options_;
  std::optional<std::filesystem::path> executors_;
  bool measure_ = false;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() {
  return std::make_unique<PlanCommand>();
}

}  // namespace zerolock
