/// zerolock evaluate: accuracy and negative log-likelihood of a model on the rows of a data set.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/command/adapted_model.hpp"
#include "apps/command/command.hpp"
#include "apps/command/evaluation.hpp"
#include "apps/command/train_options.hpp"
#include "apps/command/training_inputs.hpp"
#include "data/label_answers.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

namespace {

class EvaluateCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "evaluate"; }
  [[nodiscard]] const char* summary() const override {
    return "accuracy (classes ranked by likelihood) and mean NLL on the rows of a file";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock evaluate --model SmolLM2-135M-Instruct.Q4_1.gguf --adapter runs/topics/adapter "
           "--data held-out.csv --json\n\n"
           "nll: mean of -log p over all supervised tokens, p over the full vocabulary.\n"
           "nll_label: mean of -log of the row's class's share among the classes' answers.";
  }

  void declare(OptionTable& table) override {
    table.path("config", config_, "TOML file with any of these options",
               OptionTable::Kept::on_command_line_only);
    table.model("model", model_, model_help);
    table.path("adapter", adapter_, "PEFT adapter folder");
    rows_.declare(table);
    table.integer("stage", stage_, 0, 1023,
                  "read out after this stage of --stages or --layers, counted from 0");
    table.integer("stages", partition_.stages, 1, 1024, "stages of equal size that --stage counts (3)");
    table.integers("layers", partition_.layers, 1, 4096, "layers of each stage that --stage counts");
    table.alternatives("stages", "layers");
    table.integer("batch", batch_, 1, 4096, "rows of a forward pass");
    table.integer("threads", threads_, 1, 256, "compute threads (one for each core, at most 2)");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable& table) override {
    if (config_) table.read(*config_);
    table.check_alternatives();
    if (!model_) throw InputError("--model", "is required: a Hugging Face folder or a GGUF file");
    if (!rows_.data) throw InputError("--data", "is required: a .csv, .jsonl or text file");
    start_log(log_);
    prepare_compute();
    const AdaptedModel model(*model_, adapter_);
    const DatasetOptions dataset_options = rows_.dataset_options();
    const Dataset dataset = read_dataset(*rows_.data, *model.opened().tokenizer, dataset_options);
    EvaluationPlan plan;
    plan.batch = batch_;
    plan.threads = threads_.value_or(std::clamp(std::thread::hardware_concurrency(), 1U, 2U));
    plan.layers = readout_layers(model.config());
    if (!dataset.labels.empty()) {
      plan.label_answers = label_answers(*model.opened().tokenizer, dataset.labels,
                                         dataset_options.prompt ? &*dataset_options.prompt : nullptr);
    }
    for (const std::string& warning : dataset_warnings(dataset)) spdlog::warn("{}", warning);
    require_fast_sgemm();
    print(evaluate(dataset, plan, [&model] { return model.make(); }));
    return status_done;
  }

 private:
  [[nodiscard]] std::int64_t readout_layers(const ModelConfig& config) const {
    if (!stage_) return -1;
    const std::vector<LayerRange> partition = partition_.partition(config.layers);
    if (*stage_ >= partition.size()) {
      throw InputError("--stage", "'" + std::to_string(*stage_) + "' is not a stage; allowed: 0 to " +
                                      std::to_string(partition.size() - 1));
    }
    return partition[*stage_].last;
  }

  void print(const EvaluationResult& result) const {
    if (json_) {
      nlohmann::ordered_json json = {{"examples", result.examples}};
      if (result.accuracy) json["accuracy"] = *result.accuracy;
      json["nll"] = result.nll;
      if (result.nll_label) json["nll_label"] = *result.nll_label;
      std::printf("%s\n", json.dump().c_str());
      return;
    }
    std::printf("examples   %llu\n", static_cast<unsigned long long>(result.examples));
    if (result.accuracy) std::printf("accuracy   %.4f\n", *result.accuracy);
    std::printf("nll        %.4f  (full vocabulary, mean over %llu tokens)\n", result.nll,
                static_cast<unsigned long long>(result.supervised_tokens));
    if (result.nll_label) std::printf("nll_label  %.4f  (among the classes)\n", *result.nll_label);
  }

  std::optional<std::filesystem::path> config_;
  std::optional<std::filesystem::path> model_;
  std::optional<std::filesystem::path> adapter_;
  DataOptions rows_;
  TrainOptions partition_;  // its stages and layers only
  std::optional<std::uint64_t> stage_;
  std::uint64_t batch_ = 8;
  std::optional<std::uint64_t> threads_;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_evaluate_command() {
  return std::make_unique<EvaluateCommand>();
}

}  // namespace zerolock
