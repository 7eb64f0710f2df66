#include "apps/command/train_options.hpp"

#include <algorithm>
#include <set>

#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t count_max = 1'000'000'000;
constexpr std::uint64_t seed_max = 9'223'372'036'854'775'807ULL;  // TOML's largest integer

const std::vector<std::string> lora_targets{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                            "gate_proj", "up_proj", "down_proj"};

void check_targets(const std::vector<std::string>& targets) {
  if (targets.empty()) throw InputError("--targets", "the list is empty; allowed: " + joined(lora_targets));
  std::set<std::string> seen;
  for (const std::string& target : targets) {
    if (std::count(lora_targets.begin(), lora_targets.end(), target) == 0) {
      throw InputError("--targets",
                       "'" + target + "' is not a linear layer; allowed: " + joined(lora_targets));
    }
    if (!seen.insert(target).second) throw InputError("--targets", "'" + target + "' is named twice");
  }
}

}  // namespace

// -- Declaring
// ------------------------------------------------------------------------------------------------------

void DataOptions::declare(OptionTable& table) {
  table.path("data", data, "rows: .csv, .jsonl or plain text");
  table.path("template", prompt_template, "file with the prompt, fields in {braces}");
  table.list("columns", columns, "names of a CSV file's columns, where it has no header");
  table.list("labels", labels, "names of the classes, in order");
  table.integer("seq", sequence_length, 2, 1'048'576, "tokens of a row at most");
  table.integer("limit", limit, 0, count_max, "rows at most; 0: all");
  table.flag("skip-bad-rows", skip_bad_rows, "leave broken rows out with a warning");
}

DatasetOptions DataOptions::dataset_options() const {
  DatasetOptions options;
  options.sequence_length = sequence_length;
  options.columns = columns;
  options.labels = labels;
  options.limit = limit;
  options.skip_bad_rows = skip_bad_rows;
  if (prompt_template) {
    options.prompt = PromptTemplate::parse(read_text_file(*prompt_template), prompt_template->string());
  }
  return options;
}

namespace {

void declare_run(TrainOptions& options, OptionTable& table) {
  using Kept = OptionTable::Kept;
  table.path("config", options.config, "TOML file with any of these options", Kept::on_command_line_only);
  table.flag("print-config", options.print_config, "print the resolved options as TOML and exit",
             Kept::on_command_line_only);
  table.path("resume", options.resume, "run folder to go on with", Kept::on_command_line_only);
  table.flag("json", options.json, "print the summary as one JSON object", Kept::on_command_line_only);
  table.model("model", options.model, model_help);
  options.rows.declare(table);
  table.path("out", options.out, "folder for the run");
}

void declare_numbers(TrainOptions& options, OptionTable& table) {
  TrainingSettings& settings = options.settings;
  table.integer(
      "stages", options.stages, 1, 1024,
      "stages of equal size (3, or as --executors of plan and coordinator says, unless --layers is given)");
  table.integers("layers", options.layers, 1, 4096, "layers of each stage, instead of --stages");
  table.alternatives("stages", "layers");
  table.real("alpha", settings.loss.alpha, {0, 1, true}, "weight of the task loss against consistency");
  table.choice("kl", settings.loss.direction,
               {{"forward", KlDirection::forward}, {"reverse", KlDirection::reverse}},
               "direction of the consistency term");
  table.flag("first-chunk-consistency", settings.loss.first_chunk_consistency,
             "train stage 0 on consistency with the embeddings' readout as well");
  table.choice("objective", settings.loss.form,
               {{"weighted", LossForm::weighted_terms},
                {"geometric-mean", LossForm::target_cross_entropy},
                {"reverse-kl", LossForm::target_divergence}},
               "task loss and divergence weighted by alpha, or one loss against their geometric mean");
  table.real("label-smoothing", settings.loss.label_smoothing, {0, 0.999, true},
             "of the labels in a geometric mean, spread over all outputs");
  table.parsed(
      "head",
      [&options](const std::string& value, const std::string& where) {
        parse_heads(value, where, options.inner_head, options.last_head);
      },
      [&options]() { return heads_text(options.inner_head, options.last_head); },
      "static|restricted|calibrated|adapter|bottleneck",
      "readout of each stage, or inner=HEAD,last=HEAD; restricted: to the labels' tokens; the last three "
      "too where rows have classes, unless HEAD:full");
  table.integer("batch", options.batch, 1, 65536, "sequences of a micro-batch");
  table.integer("accumulate", options.accumulate, 1, 65536, "micro-batches of an update window");
  table.integer("epochs", options.epochs, 1, 1'000'000, "passes over the data (1 unless --windows is given)");
  table.integer("windows", options.windows, 1, count_max, "update windows in all, instead of --epochs");
  table.alternatives("epochs", "windows");
  table.integer("seed", options.seed, 0, seed_max, "of the row order and the LoRA initialisation");
  table.flag("no-shuffle", options.shuffle_off, "train the rows in the file's order");
}

void declare_readouts(TrainOptions& options, OptionTable& table) {
  table.real("ridge", options.ridge, {0, 1000, true}, "of a calibrated readout's fit, times trace / width");
  table.integer("calibration-rows", options.calibration_rows, 2, 1'000'000,
                "rows of the data that calibrated readouts are fitted on");
  table.integer("bottleneck-rank", options.bottleneck_rank, 1, 65536, "of a bottleneck readout");
  table.flag("bottleneck-trained", options.bottleneck_trained, "train bottleneck readouts along");
  table.integer("adapter-width", options.adapter_width, 1, 65536, "hidden features of an adapter readout");
  table.integer("warm-up", options.warm_up, 0, count_max, "windows in which adapter readouts alone learn");
  table.parsed(
      "train-stages",
      [&options](const std::string& value, const std::string& where) {
        options.train_stages = TrainedStages::parse(value, where);
      },
      [&options]() { return options.train_stages.text(); }, "all|last|N,N,...",
      "stages that are trained; the others only pass on");
}

void declare_optimisation(TrainOptions& options, OptionTable& table) {
  TrainingSettings& settings = options.settings;
  table.integer("rank", options.rank, 1, 4096, "LoRA rank");
  table.real("lora-alpha", settings.lora.alpha, {0, 1e6, true}, "LoRA scale times rank");
  table.flag("rslora", settings.lora.rank_stabilised,
             "scale lora-alpha / sqrt(rank) instead of lora-alpha / rank");
  table.list("targets", settings.lora.targets, "linear layers with LoRA: " + joined(lora_targets));
  table.real("lr", settings.optimizer.learning_rate, {0, 100, true}, "learning rate");
  table.real("inner-lr-scale", settings.optimizer.inner_learning_rate_scale, {0, 1000, true},
             "factor of --lr in every stage but the last");
  table.choice("lr-schedule", settings.optimizer.schedule,
               {{"constant", ScheduleKind::constant},
                {"cosine", ScheduleKind::cosine},
                {"inverse-sqrt", ScheduleKind::inverse_sqrt}},
               "of the learning rate over windows");
  table.real("lr-offset", settings.optimizer.schedule_offset, {0, 1e9, true},
             "gamma of inverse-sqrt: lr / sqrt(t + gamma)");
  table.choice("optimizer", settings.optimizer.kind,
               {{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}}, "update rule");
  table.real("weight-decay", settings.optimizer.weight_decay, {0, 10, false}, "decoupled weight decay");
  table.real("clip", settings.optimizer.clip_norm, {0, 1e9, true},
             "norm that a stage's gradient is clipped to");
  table.choice("dtype", settings.compute, {{"fp32", ComputeType::fp32}, {"bf16", ComputeType::bf16}},
               "compute type");
  table.choice("base", settings.base,
               {{"keep", BaseFormat::keep},
                {"fp32", BaseFormat::fp32},
                {"bf16", BaseFormat::bf16},
                {"q8_0", BaseFormat::q8_0},
                {"q4_1", BaseFormat::q4_1}},
               "format in which frozen weights are held");
  table.flag("recompute", settings.recompute,
             "keep only each layer's input; compute the layer again in backward");
}

void declare_runtime(TrainOptions& options, OptionTable& table) {
  table.choice("placement", options.placement,
               {{"threads", StageHosting::threads}, {"processes", StageHosting::processes}},
               "stages as threads of this process, or a process for each");
  table.text("link", options.link,
             "link to imitate between processes: local, wifi, mobile, constrained, or as in 30ms,50Mbit");
  table.choice("wire-type", options.wire_type,
               {{"compute", std::nullopt},
                {"fp32", WireType::fp32},
                {"bf16", WireType::bf16},
                {"int8", WireType::int8}},
               "how hidden states travel between processes: as they are computed, or rounded");
  table.choice("embed-at", options.settings.embed_at,
               {{"stage", EmbedAt::stage}, {"source", EmbedAt::source}},
               "who looks token ids up in the embedding: the first stage, or the process that has the rows");
  table.choice("schedule", options.schedule,
               {{"zerolock", TrainingSchedule::zerolock},
                {"bp", TrainingSchedule::bp},
                {"gpipe", TrainingSchedule::gpipe},
                {"1f1b", TrainingSchedule::one_f_one_b},
                {"pipedream", TrainingSchedule::pipedream}},
               "order of a stage's work; all but zerolock are backpropagation, to compare with");
  table.choice("recipe", options.recipe,
               {{"auto", Recipe::automatic}, {"paper", Recipe::paper}, {"none", Recipe::none}},
               "sets head, alpha, lr, inner-lr-scale and train-stages where they are not given");
  table.integer("depth", options.depth, 1, 4096, "micro-batches in flight between two stages at most");
  table.integer("buffer-limit", options.buffer_limit_mib, 1, 1'048'576, "MiB of each buffer at most");
  table.integer("checkpoint-every", options.checkpoint_every, 1, 1'000'000, "windows between checkpoints");
  table.integer(
      "replay-batch", options.replay_batch, 1, 64,
      "waiting micro-batches that a stage does at once after it was away: faster, takes as much memory more, "
      "and the last bits of the adapter may differ");
  table.integer("restarts-max", options.restarts_max, 0, 1'000'000,
                "failures of one stage, and of its executor, within a minute; one more pauses the run");
  table.real("hang-after", options.hang_after_seconds, {0.01, 86'400, false},
             "seconds before which no compute step is taken to hang, later beyond 10 times the usual; a step "
             "of a minute, as on a device that swaps or cools down, is none");
  table.path("eval-data", options.eval_data, "rows to evaluate on while training, read like those of --data");
  table.integer("eval-every", options.eval_every, 1, count_max, "windows from one evaluation to the next");
  table.integer("early-stop", options.early_stop, 1, count_max,
                "stop after so many evaluations without improvement");
  table.flag("tensorboard", options.tensorboard,
             "write losses, learning rate, gradient norm and speed for TensorBoard, in the run's folder");
  options.log.declare(table);
}

}  // namespace

void TrainOptions::declare(OptionTable& table) {
  declare_run(*this, table);
  declare_numbers(*this, table);
  declare_readouts(*this, table);
  declare_optimisation(*this, table);
  declare_runtime(*this, table);
}

// -- What follows from the options
// ----------------------------------------------------------------------------------

void TrainOptions::complete(const OptionTable& table) {
  complete_model(table);
  if (!rows.data) throw InputError("--data", "is required: a .csv, .jsonl or text file");
  if (!out) throw InputError("--out", "is required: a folder for the run");
}

void TrainOptions::complete_model(const OptionTable& table) {
  table.check_alternatives();
  check_targets(settings.lora.targets);
  if (!stages && layers.empty()) stages = schedule == TrainingSchedule::bp ? 1 : 3;
  if (schedule == TrainingSchedule::bp && stage_count() != 1) {
    throw InputError("--schedule", "bp has one stage, not " + std::to_string(stage_count()) +
                                       "; leave --stages and --layers away, or take gpipe or 1f1b, which "
                                       "give the same numbers with more");
  }
  if (resume && !resumes_exactly(schedule)) {
    throw InputError("--resume",
                     "a pipedream run cannot go on: when its checkpoints were made, the window "
                     "after them had begun with weights that they do not hold; start anew");
  }
  if (!epochs && !windows) epochs = 1;
  settings.seed = seed;
  settings.lora.rank = static_cast<std::int64_t>(rank);
  if (early_stop && !eval_data) throw InputError("--early-stop", "needs --eval-data");
  if (!model) throw InputError("--model", "is required: a Hugging Face folder or a GGUF file");
}

void TrainOptions::require_own_losses(const std::string& what) const {
  if (gradient_reach(schedule) == GradientReach::stage) return;
  throw InputError("--schedule", what + " cannot have " + std::string(to_string(schedule)) +
                                     ", which sends gradients back; it works with zerolock train --placement "
                                     "threads and zerolock bench throughput");
}

std::vector<LayerRange> TrainOptions::partition(std::int64_t model_layers) const {
  if (layers.empty()) {
    const std::uint64_t count = stage_count();
    if (count > static_cast<std::uint64_t>(model_layers)) {
      throw InputError("--stages", "'" + std::to_string(count) + "' is more than the model's " +
                                       std::to_string(model_layers) + " layers; allowed: 1 to " +
                                       std::to_string(model_layers));
    }
    return equal_partition(model_layers, static_cast<std::int64_t>(count));
  }
  std::vector<LayerRange> ranges;
  std::int64_t first = 0;
  for (const std::uint64_t count : layers) {
    ranges.push_back({first, first + static_cast<std::int64_t>(count)});
    first = ranges.back().last;
  }
  if (first != model_layers) {
    throw InputError("--layers", "add up to " + std::to_string(first) + "; the model has " +
                                     std::to_string(model_layers) + " layers");
  }
  return ranges;
}

BatchPlanOptions TrainOptions::batch_plan_options() const {
  BatchPlanOptions options;
  options.batch = batch;
  options.accumulate = accumulate;
  options.epochs = epochs.value_or(1);
  options.windows = windows.value_or(0);
  options.seed = seed;
  options.shuffle = !shuffle_off;
  return options;
}

WireType TrainOptions::hidden_state_wire_type() const {
  return wire_type.value_or(exact_wire_type(scalar_type(settings.compute)));
}

bool TrainOptions::wire_rounds() const {
  switch (hidden_state_wire_type()) {
    case WireType::fp32:
      return false;
    case WireType::bf16:
      return settings.compute != ComputeType::bf16;
    case WireType::int8:
      return true;
  }
  return true;
}

std::uint64_t TrainOptions::stage_count() const {
  return layers.empty() ? stages.value_or(3) : layers.size();
}

TrainingSettings TrainOptions::stage_settings(std::uint64_t stages_in_all,
                                              const std::vector<std::int64_t>& label_tokens,
                                              std::uint64_t total_windows) const {
  TrainingSettings result = settings;
  const auto head_of = [&](const HeadChoice& choice) {
    HeadSettings head;
    head.kind = choice.kind;
    if (choice.restricted(!label_tokens.empty())) head.restricted_tokens = label_tokens;
    head.ridge = ridge;
    head.bottleneck_rank = static_cast<std::int64_t>(bottleneck_rank);
    head.bottleneck_trained = bottleneck_trained;
    head.adapter_width = static_cast<std::int64_t>(adapter_width);
    head.adapter_warm_up = warm_up;
    return head;
  };
  result.loss.inner_head = head_of(inner_head);
  result.loss.last_head = head_of(last_head);
  result.optimizer.schedule_windows = total_windows;
  result.trained_stages = train_stages.of(stages_in_all);
  result.calibration_rows_max =
      std::max(result.calibration_rows_max, static_cast<std::int64_t>(calibration_rows));
  return result;
}

nlohmann::ordered_json TrainOptions::deciding_settings() const {
  const OptimizerSettings& optimizer = settings.optimizer;
  static constexpr const char* schedules[] = {"constant", "cosine", "inverse-sqrt"};
  static constexpr const char* forms[] = {"weighted", "geometric-mean", "reverse-kl"};
  static constexpr const char* types[] = {"fp32", "bf16", "fp64"};
  static constexpr const char* formats[] = {"keep", "fp32", "bf16", "q8_0", "q4_1"};
  nlohmann::ordered_json deciding = {
      {"seed", seed},
      {"batch", batch},
      {"accumulate", accumulate},
      {"no-shuffle", shuffle_off},
      {"alpha", settings.loss.alpha},
      {"kl", settings.loss.direction == KlDirection::forward ? "forward" : "reverse"},
      {"first-chunk-consistency", settings.loss.first_chunk_consistency},
      {"objective", forms[static_cast<int>(settings.loss.form)]},
      {"label-smoothing", settings.loss.label_smoothing},
      {"head", heads_text(inner_head, last_head)},
      {"ridge", ridge},
      {"calibration-rows", calibration_rows},
      {"bottleneck-rank", bottleneck_rank},
      {"bottleneck-trained", bottleneck_trained},
      {"adapter-width", adapter_width},
      {"warm-up", warm_up},
      {"train-stages", train_stages.text()},
      {"rank", settings.lora.rank},
      {"lora-alpha", settings.lora.alpha},
      {"rslora", settings.lora.rank_stabilised},
      {"targets", settings.lora.targets},
      {"lr", optimizer.learning_rate},
      {"inner-lr-scale", optimizer.inner_learning_rate_scale},
      {"lr-schedule", schedules[static_cast<int>(optimizer.schedule)]},
      {"lr-offset", optimizer.schedule_offset},
      {"optimizer", optimizer.kind == OptimizerKind::adamw ? "adamw" : "sgd"},
      {"weight-decay", optimizer.weight_decay},
      {"clip", optimizer.clip_norm ? nlohmann::ordered_json(*optimizer.clip_norm) : nlohmann::ordered_json()},
      {"dtype", types[static_cast<int>(settings.compute)]},
      {"base", formats[static_cast<int>(settings.base)]}};
  if (schedule != TrainingSchedule::zerolock) deciding["schedule"] = std::string(to_string(schedule));
  if (wire_rounds()) deciding["wire-type"] = to_string(hidden_state_wire_type());
  // A cosine's length is part of every learning rate; with the other schedules a run may be prolonged.
  if (optimizer.schedule == ScheduleKind::cosine) {
    deciding["epochs"] = epochs.value_or(1);
    deciding["windows"] = windows.value_or(0);
  }
  return deciding;
}

}  // namespace zerolock
