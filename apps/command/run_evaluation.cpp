#include "apps/command/run_evaluation.hpp"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "actors/checkpoint_files.hpp"
#include "apps/command/adapter_output.hpp"
#include "apps/command/evaluation.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"
#include "tensors/model/causal_model.hpp"
#include "tensors/training/readout_head.hpp"

namespace zerolock {

namespace {

constexpr std::string_view lora_prefix = "lora.";

/// A stage's own readout with what it has learned, or was fitted to, by the time of a state.
class StageHeadReadout final : public EvaluationReadout {
 public:
  StageHeadReadout(const ModelFiles& model, const HeadSettings& settings, const LayerRange& layers,
                   const StageState& state)
      : head_(make_readout_head(model, settings,
                                {"head.model.layers." + std::to_string(layers.last - 1) + ".readout", 0},
                                at::kFloat, make_token_rows(model, settings.restricted_tokens, at::kFloat))) {
    head_->import_fitted(state.tensors);
    for (TrainableTensor& tensor : head_->trainable()) tensor.value.copy_(state.tensors.at(tensor.name));
  }

  at::Tensor log_probabilities(const at::Tensor& hidden) override {
    at::Tensor logits = at::empty({hidden.size(0), head_->outputs().outputs()}, hidden.options());
    head_->outputs().multiply(head_->features(hidden, nullptr), logits, scratch_);
    return at::log_softmax(logits, 1, at::kDouble);
  }
  [[nodiscard]] std::int64_t output_of(TokenId token) const override { return head_->output_of(token); }

 private:
  std::unique_ptr<ReadoutHead> head_;
  ExpansionScratch scratch_{at::kFloat};
};

nlohmann::ordered_json scores(const EvaluationResult& result) {
  nlohmann::ordered_json json;
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  json["nll"] = result.nll;
  if (result.nll_label) json["nll_label"] = *result.nll_label;
  return json;
}

std::map<std::string, at::Tensor> adapter_of(const std::vector<StageState>& states) {
  std::map<std::string, at::Tensor> adapter;
  for (const StageState& state : states) {
    for (const auto& [name, tensor] : state.tensors) {
      if (name.rfind(lora_prefix, 0) == 0) adapter[name.substr(lora_prefix.size())] = tensor.to(at::kFloat);
    }
  }
  return adapter;
}

}  // namespace

RunEvaluation::RunEvaluation(const TrainOptions& options, const TrainingInputs& inputs,
                             const RunFolder& folder, WindowIndex keep_through)
    : options_(options),
      inputs_(inputs),
      folder_(folder),
      committed_(inputs.partition.size(), keep_through.value),
      last_evaluated_(keep_through.value / options.eval_every * options.eval_every) {
  keep_earlier(keep_through);
  thread_ = std::thread([this] { work(); });
}

RunEvaluation::~RunEvaluation() {
  finish();
}

void RunEvaluation::keep_earlier(WindowIndex keep_through) {
  std::error_code error;
  if (!std::filesystem::exists(folder_.evaluations(), error)) return;
  std::istringstream earlier(read_text_file(folder_.evaluations()));
  std::uint64_t best_before = 0;
  std::optional<double> best_value;
  for (std::string text; std::getline(earlier, text);) {
    const auto line = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("window") || !line.contains("nll")) continue;
    const double value = line.value("nll_label", line["nll"].get<double>());
    if (!best_value || value < *best_value) {
      best_value = value;
      best_before = line["window"].get<std::uint64_t>();
    }
    if (line["window"].get<std::uint64_t>() <= keep_through.value) take(line);
  }
  if (best_before > keep_through.value) {
    // Its windows are trained again, and the adapter of the best one before is gone: start looking afresh.
    std::filesystem::remove_all(folder_.best_adapter(), error);
    best_.reset();
    without_improvement_ = 0;
  }
  // Who goes on with a run that was stopped early wants to see whether it still improves.
  if (options_.early_stop && without_improvement_ >= *options_.early_stop) without_improvement_ = 0;
  write_lines();
}

void RunEvaluation::window_committed(const WindowReport& report) {
  const std::lock_guard lock(mutex_);
  committed_.at(report.stage.value) = report.window.value;
  ++changes_;
  changed_.notify_all();
}

bool RunEvaluation::stop_wanted() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void RunEvaluation::finish() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void RunEvaluation::finish(const ClusterOutcome& outcome) {
  finish();
  if (!lines_.empty() && lines_.back()["window"] == outcome.durable.value) return;
  std::vector<StageState> states;
  for (const StageOutcome& stage : outcome.stages) states.push_back(stage.state);
  evaluate_states(states);
}

void RunEvaluation::work() {
  at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  while (true) {
    const std::uint64_t due = last_evaluated_ + options_.eval_every;
    changed_.wait(lock, [&] {
      return ending_ || stopping_ ||
             (changes_ != seen && *std::min_element(committed_.begin(), committed_.end()) >= due);
    });
    if (ending_ || stopping_) return;
    seen = changes_;
    lock.unlock();
    try {
      const std::vector<StageState> states = due_states(due);
      if (!states.empty()) evaluate_states(states);
    } catch (const std::exception& error) {
      spdlog::warn("no evaluation: {}", error.what());
    }
    lock.lock();
  }
}

std::vector<StageState> RunEvaluation::due_states(std::uint64_t due) const {
  const std::filesystem::path checkpoints = folder_.checkpoints(inputs_.partition);
  const std::uint64_t stages = inputs_.partition.size();
  const std::optional<WindowIndex> window = common_durable_window(checkpoints, stages);
  if (!window || window->value < due)
    return {};  // a commit is on its way to the disk: look again at the next
  std::vector<StageState> states;
  try {
    for (std::uint64_t stage = 0; stage < stages; ++stage) {
      states.push_back(read_checkpoint(checkpoints, StageIndex{stage}, *window));
    }
  } catch (const InputError&) {
    return {};  // retired between the two looks; a newer one is there at the next commit
  }
  return states;
}

void RunEvaluation::evaluate_states(const std::vector<StageState>& states) {
  const std::map<std::string, at::Tensor> adapter = adapter_of(states);
  EvaluationPlan plan;
  plan.label_answers = inputs_.label_answers;
  const LoraSettings& lora = inputs_.settings.lora;
  const EvaluationResult result = evaluate(*inputs_.evaluation, plan, [&] {
    auto model = std::make_unique<CausalModel>(inputs_.model.files, at::kFloat,
                                               LoraPlan{lora.rank, lora.scale(), lora.targets});
    model->set_adapter(adapter);
    return model;
  });
  nlohmann::ordered_json line = {{"window", states.front().window.value}, {"examples", result.examples}};
  line.update(scores(result));
  line["stages"] = stage_scores(states, adapter);
  bool best = false;
  {
    const std::lock_guard lock(mutex_);
    best = take(line);
    stopping_ = stopping_ || (options_.early_stop && without_improvement_ >= *options_.early_stop);
    last_evaluated_ = states.front().window.value / options_.eval_every * options_.eval_every;
  }
  if (best) write_adapter_folder(folder_.best_adapter(), states, lora, *inputs_.model.files);
  write_lines();
  std::string text = "evaluation after window " + std::to_string(states.front().window.value) + ":";
  if (result.accuracy) text += " accuracy " + number_text(*result.accuracy) + ",";
  spdlog::info("{} nll {:.4f}{}", text, result.nll_label.value_or(result.nll),
               best ? ", the best so far" : "");
}

nlohmann::ordered_json RunEvaluation::stage_scores(const std::vector<StageState>& states,
                                                   const std::map<std::string, at::Tensor>& adapter) const {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  const LoraSettings& lora = inputs_.settings.lora;
  for (std::size_t stage = 0; stage < states.size(); ++stage) {
    if (!inputs_.settings.trains(StageIndex{stage})) continue;  // it has no readout
    StageHeadReadout readout(*inputs_.model.files,
                             inputs_.settings.loss.head_of(StageIndex{stage}, states.size()),
                             inputs_.partition[stage], states[stage]);
    EvaluationPlan plan;
    plan.label_answers = inputs_.label_answers;
    plan.layers = inputs_.partition[stage].last;
    plan.readout = &readout;
    nlohmann::ordered_json entry = {{"stage", stage}};
    entry.update(scores(evaluate(*inputs_.evaluation, plan, [&] {
      auto model = std::make_unique<CausalModel>(inputs_.model.files, at::kFloat,
                                                 LoraPlan{lora.rank, lora.scale(), lora.targets});
      model->set_adapter(adapter);
      return model;
    })));
    stages.push_back(entry);
  }
  return stages;
}

bool RunEvaluation::take(const nlohmann::ordered_json& line) {
  lines_.push_back(line);
  const double value = line.value("nll_label", line["nll"].get<double>());
  if (best_ && !(value < *best_)) {
    ++without_improvement_;
    return false;
  }
  best_ = value;
  best_window_ = line["window"].get<std::uint64_t>();
  without_improvement_ = 0;
  return true;
}

void RunEvaluation::write_lines() const {
  std::string text;
  for (const auto& line : lines_) text += line.dump() + "\n";
  write_text_file(folder_.evaluations(), text);
}

nlohmann::ordered_json RunEvaluation::summary() const {
  if (!best_) return nullptr;
  nlohmann::ordered_json best;
  for (const auto& line : lines_) {
    if (line["window"] == best_window_) best = line;
  }
  return {{"evaluations", lines_.size()}, {"best_window", best_window_}, {"best", best}};
}

std::string RunEvaluation::standing() const {
  const std::lock_guard lock(mutex_);
  return std::to_string(without_improvement_) + " evaluations without improvement, best window " +
         std::to_string(best_window_);
}

}  // namespace zerolock
