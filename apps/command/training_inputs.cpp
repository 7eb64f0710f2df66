#include "apps/command/training_inputs.hpp"

#include <ATen/Parallel.h>

#include "data/batch_plan.hpp"
#include "data/label_answers.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

namespace {

/// The ids that a restricted readout is over; empty if no stage has one.
std::vector<std::int64_t> restricted_tokens(const TrainOptions& options, const TrainingInputs& inputs,
                                            const std::optional<PromptTemplate>& prompt) {
  const bool wanted = options.inner_head == HeadKind::restricted || options.last_head == HeadKind::restricted;
  if (!wanted) return {};
  if (inputs.dataset->labels.empty()) {
    throw InputError("--head", "'restricted' needs rows with a class; " + options.rows.data->string() +
                                   " has none (name them with --labels, or use --head static)");
  }
  return label_token_ids(*inputs.model.tokenizer, inputs.dataset->labels, prompt ? &*prompt : nullptr);
}

std::uint64_t state_bytes(const StageState& state) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : state.tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

BackendFactory TrainingInputs::backend_factory() const {
  const auto files = model.files;
  return [files, layers = partition, settings = stage_settings](StageIndex stage, MemoryAccount& account) {
    at::set_num_threads(1);  // holds for the stage's own thread
    return make_chunk_backend(files, stage, layers, settings.at(stage.value), account);
  };
}

TrainingInputs open_training_inputs(const TrainOptions& options) {
  TrainingInputs inputs;
  inputs.model = open_model(*options.model);
  const ModelConfig& config = inputs.model.files->config();
  if (options.rows.sequence_length > static_cast<std::uint64_t>(config.context_length)) {
    throw InputError("--seq", "'" + std::to_string(options.rows.sequence_length) +
                                  "' is more than the model's context; allowed: 2 to " +
                                  std::to_string(config.context_length));
  }
  inputs.partition = options.partition(config.layers);
  const DatasetOptions dataset_options = options.rows.dataset_options();
  inputs.dataset = std::make_shared<const Dataset>(
      read_dataset(*options.rows.data, *inputs.model.tokenizer, dataset_options));
  inputs.batches = make_batch_plan(inputs.dataset, options.batch_plan_options());
  const auto tokens = restricted_tokens(options, inputs, dataset_options.prompt);
  const std::uint64_t stages = inputs.partition.size();
  for (std::uint64_t stage = 0; stage < stages; ++stage) {
    inputs.stage_settings.push_back(
        options.stage_settings(stage, stages, tokens, inputs.batches->last_window().value));
  }
  const BackendFactory make_backend = inputs.backend_factory();
  for (std::uint64_t stage = 0; stage < stages; ++stage) {
    MemoryAccount scratch;
    inputs.state_bytes += state_bytes(make_backend(StageIndex{stage}, scratch)->state());
  }
  return inputs;
}

std::vector<std::string> dataset_warnings(const Dataset& dataset) {
  const DatasetReport& report = dataset.report;
  std::string counts;
  const auto count = [&counts](std::uint64_t number, const char* what) {
    if (number > 0) counts += (counts.empty() ? "" : ", ") + std::to_string(number) + " " + what;
  };
  count(report.empty_answers, "rows left out for their empty answer");
  count(report.answers_too_long, "rows left out for an answer that does not fit --seq");
  count(report.bad_rows, "broken rows left out");
  if (counts.empty()) return {};
  if (!report.notes.empty()) counts += " (first: " + report.notes.front() + ")";
  return {counts};
}

std::vector<std::string> window_notes(const TrainingInputs& inputs, const TrainOptions& options) {
  std::vector<std::string> notes;
  const std::uint64_t rows = inputs.dataset->examples.size();
  const std::uint64_t per_window = options.batch * options.accumulate;
  if (inputs.dataset->report.prompts_cut > 0) {
    notes.push_back(std::to_string(inputs.dataset->report.prompts_cut) + " prompts cut to fit --seq " +
                    std::to_string(options.rows.sequence_length));
  }
  if (rows % per_window != 0) {
    notes.push_back(std::to_string(rows) + " rows do not fill windows of " + std::to_string(options.batch) +
                    " x " + std::to_string(options.accumulate) + ": the last window of a pass has " +
                    std::to_string(rows % per_window) + ", and its gradient is the mean over what it has");
  }
  return notes;
}

}  // namespace zerolock
