#include "apps/command/plan_inputs.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "apps/command/recipe.hpp"
#include "apps/command/training_inputs.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/stage_readout.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t micro_batches_looked_at = 20'000;
constexpr std::size_t samples_kept = 2;

/// Sums up shapes.
class Survey {
 public:
  void add(const MicroBatchShape& shape) {
    ++count_;
    largest_ = larger(largest_, shape);
    sum_.sequences += shape.sequences;
    sum_.rows += shape.rows;
    sum_.scores += shape.scores;
    sum_.supervised_rows += shape.supervised_rows;
  }
  [[nodiscard]] const MicroBatchShape& largest() const { return largest_; }
  [[nodiscard]] MicroBatchShape mean() const {
    const auto of = [this](std::int64_t sum) {
      return static_cast<std::int64_t>(std::llround(static_cast<double>(sum) / static_cast<double>(count_)));
    };
    return {of(sum_.sequences), of(sum_.rows), largest_.longest, of(sum_.scores), of(sum_.supervised_rows)};
  }

 private:
  std::int64_t count_ = 0;
  MicroBatchShape largest_;
  MicroBatchShape sum_;
};

std::int64_t distance(const MicroBatchShape& a, const MicroBatchShape& b) {
  return std::abs(a.rows - b.rows) + std::abs(a.supervised_rows - b.supervised_rows);
}

/// Looks at the run's micro-batches, and keeps those that are most like their mean.
void survey(const MicroBatchProvider& batches, PlanInputs& inputs) {
  std::vector<BatchPosition> positions;
  const WindowIndex last = batches.last_window();
  for (WindowIndex w{1}; w <= last && positions.size() < micro_batches_looked_at; w = w.next()) {
    for (std::uint64_t i = 0; i < batches.micro_batches(w); ++i) positions.push_back({w, i});
  }
  Survey seen;
  std::vector<MicroBatchShape> shapes;
  for (const BatchPosition& position : positions) {
    shapes.push_back(shape_of(*batches.make(position).layout));
    seen.add(shapes.back());
  }
  inputs.largest = seen.largest();
  inputs.mean = seen.mean();
  std::vector<std::size_t> order(shapes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return distance(shapes[a], inputs.mean) < distance(shapes[b], inputs.mean);
  });
  order.resize(std::min(order.size(), samples_kept));
  for (const std::size_t i : order) inputs.samples.push_back(batches.make(positions[i]));
  // What calibration keeps and sends: its rows are the run's first ones.
  std::int64_t kept = 0;
  for (std::uint64_t i = 0; i < batches.micro_batches(WindowIndex{0}); ++i) {
    const MicroBatchShape shape = shape_of(*batches.make({WindowIndex{0}, i}).layout);
    inputs.calibration_batch = larger(inputs.calibration_batch, shape);
    kept += shape.supervised_rows;
  }
  inputs.calibration_rows = std::min(kept, inputs.settings.calibration_rows_max);
  inputs.buffers.calibration_micro_batches = static_cast<std::int64_t>(batches.micro_batches(WindowIndex{0}));
}

/// Full sequences of one repeated token, the last row of each supervised.
Entry full_entry(std::int64_t sequences, std::int64_t tokens, std::int64_t token) {
  auto layout = std::make_shared<MicroBatchLayout>();
  for (std::int64_t s = 0; s < sequences; ++s) {
    layout->sequence_offsets.push_back((s + 1) * tokens);
    layout->supervised_rows.push_back((s + 1) * tokens - 1);
    layout->targets.push_back(token);
  }
  return {{WindowIndex{1}, 0}, Incarnation{0}, layout, at::full({sequences * tokens}, token, at::kLong)};
}

bool calibrates(const TrainOptions& options, std::uint64_t stages) {
  return options.inner_head.kind == HeadKind::calibrated && stages > 1;
}

void assume_rows(const TrainOptions& options, PlanInputs& inputs) {
  const auto sequences = static_cast<std::int64_t>(options.batch);
  const auto tokens = static_cast<std::int64_t>(options.rows.sequence_length);
  inputs.largest = inputs.mean = inputs.calibration_batch = full_shape(sequences, tokens, 1);
  const std::vector<std::int64_t>& answers = inputs.settings.loss.last_head.restricted_tokens;
  const std::vector<std::int64_t>& inner = inputs.settings.loss.inner_head.restricted_tokens;
  const std::int64_t token = !answers.empty() ? answers.front() : inner.empty() ? 0 : inner.front();
  inputs.samples.push_back(full_entry(sequences, tokens, token));
  if (calibrates(options, inputs.stages)) {
    inputs.calibration_rows = static_cast<std::int64_t>(options.calibration_rows);
    inputs.buffers.calibration_micro_batches = (inputs.calibration_rows + sequences - 1) / sequences;
  }
  inputs.notes.push_back("no --data: full rows of " + std::to_string(tokens) +
                         " tokens are assumed, one of them supervised" +
                         (options.rows.labels.empty() ? ", and text without classes" : ""));
}

/// Model and, without rows, the classes alone.
TrainingSources open_sources(const TrainOptions& options) {
  if (options.rows.data) return open_training_sources(options);
  TrainingSources sources;
  sources.model = open_model(*options.model);
  check_sequence_length(options, sources.model.files->config());
  Dataset classes;
  classes.labels = options.rows.labels;
  sources.dataset = std::make_shared<const Dataset>(std::move(classes));
  sources.prompt = options.rows.dataset_options().prompt;
  return sources;
}

/// Which stages are calibrated, as StageReadout decides it.
bool needs_calibration(const PlanInputs& inputs) {
  for (std::uint64_t k = 0; k < inputs.stages; ++k) {
    const StageIndex stage{k};
    if (!inputs.settings.trains(stage)) continue;
    if (inputs.settings.loss.head_of(stage, inputs.stages).kind == HeadKind::calibrated) return true;
    const auto previous = previous_head(inputs.settings, stage, inputs.stages);
    if (previous && previous->settings.kind == HeadKind::calibrated) return true;
  }
  return false;
}

}  // namespace

std::int64_t PlanInputs::entry_bytes(const MicroBatchShape& shape) const {
  return shape.rows * sizes.config.width *
         static_cast<std::int64_t>(c10::elementSize(scalar_type(settings.compute)));
}

PlannedStage PlanInputs::stage(std::uint64_t stage, const LayerRange& layers) const {
  return {StageIndex{stage}, stages, layers};
}

PlannedMemory PlanInputs::memory(const PlannedStage& stage) const {
  StageLoad load;
  load.micro_batch = largest;
  load.held = entries_held(buffers, stage, entry_bytes(largest));
  load.calibration_rows = calibration_rows;
  load.calibration_batch = calibration_batch;
  load.held_in_calibration = entries_held_in_calibration(buffers, stage, entry_bytes(calibration_batch));
  return stage_memory(sizes, settings, stage, load);
}

StageOperations PlanInputs::operations(const PlannedStage& stage) const {
  return stage_operations(sizes, settings, stage, mean);
}

PlanInputs open_plan_inputs(TrainOptions& options, std::uint64_t stages, bool apart,
                            const std::function<bool(const std::string& flag)>& by_hand) {
  const TrainingSources sources = open_sources(options);
  const auto recipe = resolve_recipe(options, sources, by_hand);
  PlanInputs inputs = make_plan_inputs(options, sources, stages, apart);
  if (recipe) inputs.notes.insert(inputs.notes.begin(), recipe->text());
  return inputs;
}

PlanInputs make_plan_inputs(const TrainOptions& options, const TrainingSources& sources, std::uint64_t stages,
                            bool apart) {
  PlanInputs inputs;
  inputs.model = sources.model.files;
  inputs.sizes = sizes_of(*inputs.model);
  inputs.stages = stages;
  inputs.buffers.accumulate = static_cast<std::int64_t>(options.accumulate);
  inputs.buffers.checkpoint_every = static_cast<std::int64_t>(options.checkpoint_every);
  inputs.buffers.depth = static_cast<std::int64_t>(options.depth);
  inputs.buffers.bytes_max = static_cast<std::int64_t>(options.buffer_limit_mib) << 20;
  inputs.buffers.apart = apart;
  inputs.buffers.source_embeds = options.settings.embed_at == EmbedAt::source;
  BatchPlanOptions batches = options.batch_plan_options();
  if (calibrates(options, stages)) batches.calibration_rows = options.calibration_rows;
  inputs.settings = options.stage_settings(stages, restricted_tokens(options, sources), 1);
  inputs.settings.check(stages);
  if (options.rows.data) {
    survey(*make_batch_plan(sources.dataset, batches), inputs);
  } else {
    assume_rows(options, inputs);
  }
  if (!needs_calibration(inputs)) {
    inputs.calibration_rows = 0;
    inputs.buffers.calibration_micro_batches = 0;
  }
  return inputs;
}

}  // namespace zerolock
