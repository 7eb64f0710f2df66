/// zerolock train: fine-tunes a model on this machine, its stages as threads or processes.

#include "apps/command/training_command.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

class TrainCommand : public TrainingCommand {
 public:
  [[nodiscard]] const char* name() const override { return "train"; }
  [[nodiscard]] const char* summary() const override { return "fine-tune a model in stages on this machine"; }
  [[nodiscard]] const char* example() const override {
    return "zerolock train --model SmolLM2-135M-Instruct.Q4_1.gguf --data topics.csv --out runs/topics "
           "--stages 3";
  }

 protected:
  ClusterRunner runner(const TrainingInputs& inputs, const RunFolder& folder, const RunRecord&) override {
    if (options().placement == StageHosting::threads) {
      if (options().link != "local") {
        throw InputError("--link", "stages that are threads have no links; use --placement processes");
      }
      if (options().wire_type) {
        throw InputError("--wire-type",
                         "hidden states of stages that are threads do not travel; use --placement processes");
      }
      return thread_runner(options(), inputs);
    }
    return process_runner(options(), inputs, folder, parse_link_profile(options().link, "--link"));
  }
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
  return std::make_unique<TrainCommand>();
}

}  // namespace zerolock
