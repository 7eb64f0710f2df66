#include "apps/command/training_inputs.hpp"

#include <ATen/Parallel.h>

#include "apps/command/stage_trial.hpp"
#include "data/batch_plan.hpp"
#include "data/embedded_batches.hpp"
#include "data/label_answers.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

BackendFactory TrainingInputs::backend_factory() const {
  const auto files = model.files;
  return [files, layers = partition, settings = settings, reach = reach](StageIndex stage,
                                                                         MemoryAccount& account) {
    at::set_num_threads(1);  // holds for the stage's own thread
    return make_chunk_backend(files, stage, layers, settings, account, reach);
  };
}

std::vector<std::int64_t> restricted_tokens(const TrainOptions& options, const TrainingSources& sources) {
  const bool classes = !sources.dataset->labels.empty();
  const bool wanted = options.inner_head.restricted(classes) || options.last_head.restricted(classes);
  if (!wanted) return {};
  if (!classes) {
    const std::string rows =
        options.rows.data ? options.rows.data->string() + " has none" : "without --data there are none";
    throw InputError("--head", "'restricted' needs rows with a class; " + rows +
                                   " (name them with --labels, or use --head static)");
  }
  return label_token_ids(*sources.model.tokenizer, sources.dataset->labels,
                         sources.prompt ? &*sources.prompt : nullptr);
}

void check_sequence_length(const TrainOptions& options, const ModelConfig& config) {
  if (options.rows.sequence_length <= static_cast<std::uint64_t>(config.context_length)) return;
  throw InputError("--seq", "'" + std::to_string(options.rows.sequence_length) +
                                "' is more than the model's context; allowed: 2 to " +
                                std::to_string(config.context_length));
}

TrainingSources open_training_sources(const TrainOptions& options) {
  TrainingSources sources;
  sources.model = open_model(*options.model);
  const ModelConfig& config = sources.model.files->config();
  check_sequence_length(options, config);
  static_cast<void>(options.partition(config.layers));  // for its errors, before rows are read
  const DatasetOptions dataset_options = options.rows.dataset_options();
  sources.dataset = std::make_shared<const Dataset>(
      read_dataset(*options.rows.data, *sources.model.tokenizer, dataset_options));
  sources.prompt = dataset_options.prompt;
  if (options.eval_data) {
    DatasetOptions evaluation = dataset_options;
    evaluation.limit = 0;
    evaluation.labels = sources.dataset->labels;
    sources.evaluation = std::make_shared<const Dataset>(
        read_dataset(*options.eval_data, *sources.model.tokenizer, evaluation));
  }
  return sources;
}

std::optional<RecipeReport> resolve_recipe(TrainOptions& options, const TrainingSources& sources,
                                           const std::function<bool(const std::string& flag)>& by_hand) {
  if (options.recipe == Recipe::none) return std::nullopt;
  const PromptTemplate* prompt = sources.prompt ? &*sources.prompt : nullptr;
  return apply_recipe(options, learning_task(*sources.dataset, *sources.model.tokenizer, prompt), by_hand);
}

TrainingInputs open_training_inputs(const TrainOptions& options, const TrainingSources& sources) {
  TrainingInputs inputs;
  inputs.model = sources.model;
  inputs.dataset = sources.dataset;
  inputs.evaluation = sources.evaluation;
  if (inputs.evaluation && !inputs.evaluation->labels.empty()) {
    inputs.label_answers = label_answers(*inputs.model.tokenizer, inputs.evaluation->labels,
                                         sources.prompt ? &*sources.prompt : nullptr);
  }
  inputs.partition = options.partition(sources.model.files->config().layers);
  const std::uint64_t stages = inputs.partition.size();
  BatchPlanOptions batches = options.batch_plan_options();
  if (options.inner_head.kind == HeadKind::calibrated && stages > 1) {
    batches.calibration_rows = options.calibration_rows;
  }
  inputs.batches = make_batch_plan(inputs.dataset, batches);
  if (options.settings.embed_at == EmbedAt::source) {
    inputs.batches =
        make_embedded_batches(inputs.batches, inputs.model.files, scalar_type(options.settings.compute));
  }
  inputs.settings = options.stage_settings(stages, restricted_tokens(options, sources),
                                           inputs.batches->last_window().value);
  inputs.reach = gradient_reach(options.schedule);
  try_stages(inputs);
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
