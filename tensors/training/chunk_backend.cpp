#include "tensors/training/chunk_backend.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/training/base_format.hpp"
#include "tensors/training/joint_backend.hpp"
#include "tensors/training/joint_micro_batches.hpp"
#include "tensors/training/learning_rate.hpp"
#include "tensors/training/optimizer.hpp"
#include "tensors/training/readout_loss.hpp"
#include "tensors/training/stage_readout.hpp"
#include "tensors/training/weight_stash.hpp"

namespace zerolock {
namespace {

constexpr const char* lora_prefix = "lora.";

LoraPlan lora_plan(const TrainingSettings& settings) {
  return {settings.lora.rank, settings.lora.scale(), settings.lora.targets, settings.seed};
}

/// Of the settings of a run, those of one stage's readout: where only the last stage has a loss, the others
/// have no head.
TrainingSettings readout_settings(const TrainingSettings& settings, std::uint64_t stages,
                                  GradientReach reach) {
  TrainingSettings result = settings;
  if (reach != GradientReach::stage) result.trained_stages = std::set<std::uint64_t>{stages - 1};
  return result;
}

/// What begin leaves for finish.
struct OpenMicroBatch {
  std::shared_ptr<const MicroBatchLayout> layout;
  ChunkTape tape;
  at::Tensor hidden;    // the chunk's output at the supervised rows
  at::Tensor received;  // its input at the supervised rows, if the loss looks at the previous readout
};

class ChunkBackend final : public StageBackend, public JointBackend {
 public:
  ChunkBackend(std::shared_ptr<const ModelFiles> model, StageIndex stage,
               const std::vector<LayerRange>& partition, const TrainingSettings& settings,
               MemoryAccount& account, GradientReach reach)
      : account_(account),
        opening_(account, MemoryComponent::weights),
        settings_(settings),
        type_(scalar_type(settings.compute)),
        first_(stage.value == 0),
        embeds_(settings.embeds(stage)),
        last_(stage.value + 1 == partition.size()),
        has_loss_(last_ || reach == GradientReach::stage),
        reach_(reach),
        trained_(settings.trains(stage)),
        chunk_(*model, partition[stage.value], type_, lora_plan(settings), base_conversion(settings.base)),
        readout_(*model, stage, partition, readout_settings(settings, partition.size(), reach),
                 base_conversion(settings.base)),
        optimizer_(settings.optimizer, trainable_tensors()) {
    if (!trained_) freeze();
    if (reach_ == GradientReach::stashed) stash_.emplace(chunk_.lora_pairs());
    if (embeds_) embedding_ = model->tensor("model.embed_tokens.weight");
    charge_mapped_weights(*model);
    opening_.end();
  }

  ~ChunkBackend() override { account_.add(MemoryComponent::weights, -charged_bytes_); }

  at::Tensor begin(const Entry& entry) override;
  LossReport finish(const BatchPosition& position) override;
  BackwardResult backpropagate(const BatchPosition& position, at::Tensor output_gradient) override;
  std::vector<at::Tensor> begin_together(const std::vector<Entry>& entries) override;
  std::vector<LossReport> finish_together(const std::vector<BatchPosition>& positions) override;
  StepReport step(WindowIndex window) override;
  [[nodiscard]] bool needs_calibration() const override { return readout_.needs_calibration(); }
  at::Tensor calibrate_begin(const Entry& entry) override;
  [[nodiscard]] at::Tensor calibration_targets() const override;
  void calibrate_finish(const at::Tensor& targets) override;
  [[nodiscard]] StageState state() const override;
  void restore(const StageState& state) override;

 private:
  /// Charges the construction of the members that follow it to the account.
  class Opening {
   public:
    Opening(MemoryAccount& account, MemoryComponent component) : scope_(std::in_place, account, component) {}
    void end() { scope_.reset(); }

   private:
    std::optional<MemoryScope> scope_;
  };

  std::vector<TrainableTensor> trainable_tensors();
  void charge_mapped_weights(const ModelFiles& model);
  void freeze();
  /// Whether this window trains the adapter, and not the head alone.
  [[nodiscard]] bool trains_adapter() const { return trained_ && optimizer_.steps() >= readout_.warm_up(); }
  /// Whether the LoRA pairs make a difference: those of a stage that is not trained usually do not.
  [[nodiscard]] bool adapts();
  [[nodiscard]] at::Tensor input_of(const Entry& entry) const;
  void keep_for_loss(OpenMicroBatch& open, const at::Tensor& output, const at::Tensor& input) const;
  OpenMicroBatch close(const BatchPosition& position);
  BackwardResult backward(const BatchPosition& position, at::Tensor output_gradient,
                          bool need_input_gradient);
  /// Fills the report's losses; the gradient of the supervised rows.
  at::Tensor readout_gradient(const OpenMicroBatch& open, LossReport& report);
  void check_finite(const BatchPosition& position, double loss) const;
  void clear_gradients();

  MemoryAccount& account_;
  Opening opening_;
  TrainingSettings settings_;
  at::ScalarType type_;
  bool first_;
  bool embeds_;
  bool last_;
  bool has_loss_;
  GradientReach reach_;
  bool trained_;
  StoredTensor embedding_;  // of the first stage, if it embeds
  Chunk chunk_;
  StageReadout readout_;
  std::vector<TrainableTensor> adapter_;  // the LoRA tensors; without gradients if the stage is not trained
  Optimizer optimizer_;
  std::int64_t charged_bytes_ = 0;

  std::map<BatchPosition, OpenMicroBatch> open_;
  std::optional<JointMicroBatches> open_together_;  // those of open_ whose tape is shared
  std::optional<WeightStash> stash_;                // if steps come between a forward and its backward
  std::int64_t finished_ = 0;                       // micro-batches in the gradient sums
  WindowIndex committed_;
};

/// Fills adapter_ on the way.
std::vector<TrainableTensor> ChunkBackend::trainable_tensors() {
  for (LoraPair* pair : chunk_.lora_pairs()) {
    adapter_.push_back({pair->a_name(), pair->a, pair->a_gradient, readout_.warm_up()});
    adapter_.push_back({pair->b_name(), pair->b, pair->b_gradient, readout_.warm_up()});
  }
  if (!trained_) return {};
  std::vector<TrainableTensor> tensors = adapter_;
  for (TrainableTensor& tensor : readout_.trainable()) tensors.push_back(std::move(tensor));
  return tensors;
}

void ChunkBackend::freeze() {
  chunk_.freeze_lora();
  for (TrainableTensor& tensor : adapter_) tensor.gradient = at::Tensor();
  chunk_.set_lora_active(false);  // B is zero
}

/// Mapped bytes do not come from LibTorch's allocator. A tied head and the embedding are the same bytes.
void ChunkBackend::charge_mapped_weights(const ModelFiles& model) {
  charged_bytes_ = static_cast<std::int64_t>(chunk_.mapped_bytes());
  const std::optional<StorageFormat> format = base_format(settings_.base);
  const bool head_is_mapped = readout_.reads_model_rows() && (!format || *format == model.head().format());
  if (head_is_mapped) charged_bytes_ += static_cast<std::int64_t>(model.head().stored_bytes());
  if (embeds_ && !(head_is_mapped && model.config().tied_embeddings)) {
    charged_bytes_ += static_cast<std::int64_t>(embedding_.stored_bytes());
  }
  account_.add(MemoryComponent::weights, charged_bytes_);
}

at::Tensor ChunkBackend::input_of(const Entry& entry) const {
  ZEROLOCK_INVARIANT(entry.layout != nullptr, to_string(entry.position));
  ZEROLOCK_INVARIANT(entry.payload.size(0) == entry.layout->rows(), "the payload has the layout's rows");
  at::Tensor input = embeds_ ? embed(embedding_, entry.payload, type_) : entry.payload;
  // Whoever holds the weights in another format wants the file's pages out of the way.
  if (embeds_ && settings_.base != BaseFormat::keep) embedding_.release();
  ZEROLOCK_INVARIANT(input.scalar_type() == type_, "hidden states come in the compute type");
  return input;
}

at::Tensor ChunkBackend::begin(const Entry& entry) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::activations);
  ZEROLOCK_INVARIANT(!needs_calibration(), "a stage is calibrated before it trains");
  ZEROLOCK_INVARIANT(!open_.contains(entry.position), "a micro-batch begins once");
  const at::Tensor input = input_of(entry);
  // Nothing supervised or nothing trained, nothing to differentiate: such a micro-batch only passes through.
  const bool learns = trained_ && !entry.layout->supervised_rows.empty();

  OpenMicroBatch open;
  open.layout = entry.layout;
  ChunkTape* tape = learns && trains_adapter() ? &open.tape : nullptr;
  at::Tensor output = chunk_.forward(input, entry.layout->sequence_offsets, tape, settings_.recompute);
  if (learns && has_loss_) keep_for_loss(open, output, input);
  open_.emplace(entry.position, std::move(open));
  if (stash_) stash_->opened(entry.position);
  return output;
}

void ChunkBackend::keep_for_loss(OpenMicroBatch& open, const at::Tensor& output,
                                 const at::Tensor& input) const {
  const at::Tensor rows = at::tensor(open.layout->supervised_rows, at::kLong);
  open.hidden = output.index_select(0, rows);
  if (readout_.compares()) open.received = input.index_select(0, rows);
}

std::vector<at::Tensor> ChunkBackend::begin_together(const std::vector<Entry>& entries) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::activations);
  ZEROLOCK_INVARIANT(!open_together_, "those that began together are finished before others begin");
  // What only passes through leaves nothing on a tape.
  const bool alike = trains_adapter() && has_loss_ && reach_ == GradientReach::stage &&
                     std::none_of(entries.begin(), entries.end(),
                                  [](const Entry& entry) { return entry.layout->supervised_rows.empty(); });
  std::vector<at::Tensor> outputs;
  if (!alike) {
    for (const Entry& entry : entries) outputs.push_back(begin(entry));
    return outputs;
  }
  JointMicroBatches together;
  std::vector<at::Tensor> inputs;
  for (const Entry& entry : entries) {
    ZEROLOCK_INVARIANT(!needs_calibration() && !open_.contains(entry.position),
                       "a micro-batch of a stage that can train begins once");
    inputs.push_back(input_of(entry));
    together.add(entry);
  }
  const at::Tensor output =
      chunk_.forward(at::cat(inputs), together.sequence_offsets(), &together.tape, settings_.recompute);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    outputs.push_back(together.rows_of(i, output));
    OpenMicroBatch open;
    open.layout = entries[i].layout;
    keep_for_loss(open, outputs.back(), inputs[i]);
    open_.emplace(entries[i].position, std::move(open));
  }
  open_together_ = std::move(together);
  return outputs;
}

std::vector<LossReport> ChunkBackend::finish_together(const std::vector<BatchPosition>& positions) {
  std::vector<LossReport> reports;
  if (!open_together_) {
    for (const BatchPosition& position : positions) reports.push_back(finish(position));
    return reports;
  }
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::activations);
  JointMicroBatches together = std::move(*open_together_);
  open_together_.reset();
  ZEROLOCK_INVARIANT(positions == together.positions(), "exactly those that began together are finished");
  std::vector<at::Tensor> gradients;
  for (const BatchPosition& position : positions) {
    const OpenMicroBatch open = close(position);
    LossReport report;
    report.supervised_rows = static_cast<std::int64_t>(open.layout->supervised_rows.size());
    report.examples = open.layout->sequences();
    gradients.push_back(readout_gradient(open, report));
    reports.push_back(report);
    ++finished_;
  }
  chunk_.backward(at::cat(gradients), together.supervised_rows(), std::move(together.tape),
                  together.sequence_offsets(), false, together.parts());
  for (std::size_t i = 0; i < positions.size(); ++i) check_finite(positions[i], reports[i].loss);
  return reports;
}

at::Tensor ChunkBackend::calibrate_begin(const Entry& entry) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::activations);
  const at::Tensor input = input_of(entry);
  chunk_.set_lora_active(false);
  at::Tensor output = chunk_.forward(input, entry.layout->sequence_offsets, nullptr, false);
  chunk_.set_lora_active(adapts());
  if (!entry.layout->supervised_rows.empty()) {
    const at::Tensor rows = at::tensor(entry.layout->supervised_rows, at::kLong);
    readout_.keep_for_calibration(output.index_select(0, rows), input.index_select(0, rows));
  }
  return output;
}

at::Tensor ChunkBackend::calibration_targets() const {
  const MemoryScope scope(account_, MemoryComponent::buffers);
  return readout_.calibration_targets();
}

void ChunkBackend::calibrate_finish(const at::Tensor& targets) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::activations);
  readout_.fit(targets);
}

at::Tensor ChunkBackend::readout_gradient(const OpenMicroBatch& open, LossReport& report) {
  const MemoryScope scope(account_, MemoryComponent::loss);
  ReadoutLoss loss = readout_.loss(open.hidden, open.received, open.layout->targets, chunk_.scratch());
  report.task_loss = loss.task;
  report.consistency_loss = loss.consistency;
  report.loss = loss.loss;
  return std::move(loss.dhidden);
}

OpenMicroBatch ChunkBackend::close(const BatchPosition& position) {
  const auto found = open_.find(position);
  ZEROLOCK_INVARIANT(found != open_.end(), "only what began can be finished: " + to_string(position));
  OpenMicroBatch open = std::move(found->second);
  open_.erase(found);
  return open;
}

LossReport ChunkBackend::finish(const BatchPosition& position) {
  ZEROLOCK_INVARIANT(reach_ == GradientReach::stage, "this stage's gradient is for the stage before, too");
  return backward(position, {}, false).report;
}

BackwardResult ChunkBackend::backpropagate(const BatchPosition& position, at::Tensor output_gradient) {
  ZEROLOCK_INVARIANT(reach_ != GradientReach::stage, "this stage has a loss of its own");
  if (!stash_) return backward(position, std::move(output_gradient), !first_);
  const WeightStash::Restored weights = stash_->restored(position);
  return backward(position, std::move(output_gradient), !first_);
}

BackwardResult ChunkBackend::backward(const BatchPosition& position, at::Tensor output_gradient,
                                      bool need_input_gradient) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::activations);
  OpenMicroBatch open = close(position);
  BackwardResult result;
  LossReport& report = result.report;
  report.supervised_rows = static_cast<std::int64_t>(open.layout->supervised_rows.size());
  report.examples = open.layout->sequences();
  if (!has_loss_) report.task_loss = report.consistency_loss = report.loss = std::nan("");
  ++finished_;
  if (report.supervised_rows == 0 || !trained_) return result;

  const std::vector<std::int64_t>& offsets = open.layout->sequence_offsets;
  ZEROLOCK_INVARIANT(has_loss_ != output_gradient.defined(), "a stage without a loss has a gradient given");
  if (has_loss_) {
    at::Tensor dhidden = readout_gradient(open, report);
    if (trains_adapter()) {
      result.input_gradient =
          chunk_.backward(std::move(dhidden), at::tensor(open.layout->supervised_rows, at::kLong),
                          std::move(open.tape), offsets, need_input_gradient);
    }
  } else {
    ZEROLOCK_INVARIANT(output_gradient.size(0) == open.layout->rows(), "a gradient of every row");
    result.input_gradient =
        chunk_.backward(std::move(output_gradient), std::move(open.tape), offsets, need_input_gradient);
  }
  if (result.input_gradient.defined()) {
    const MemoryScope sent(account_, MemoryComponent::buffers);
    result.input_gradient = result.input_gradient.clone();
  }
  check_finite(position, has_loss_ ? report.loss : 0.0);
  return result;
}

void ChunkBackend::check_finite(const BatchPosition& position, double loss) const {
  if (!std::isfinite(loss)) throw RunError("the loss is not finite at " + to_string(position));
  if (!std::isfinite(gradient_norm(optimizer_.tensors()))) {
    throw RunError("the gradient is not finite at " + to_string(position));
  }
}

StepReport ChunkBackend::step(WindowIndex window) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::optimizer);
  ZEROLOCK_INVARIANT(finished_ > 0, "a window has at least one micro-batch");
  // Weights must not change between a micro-batch's forward and its backward, unless both know the old ones.
  ZEROLOCK_INVARIANT(open_.empty() || stash_, "all micro-batches of the window are finished");
  if (stash_) stash_->before_step();
  StepReport report;
  report.micro_batches = finished_;
  for (TrainableTensor tensor : optimizer_.tensors()) tensor.gradient.div_(static_cast<double>(finished_));
  report.gradient_norm = gradient_norm(optimizer_.tensors());
  if (settings_.optimizer.clip_norm) {
    clip_gradients(optimizer_.tensors(), report.gradient_norm, *settings_.optimizer.clip_norm);
  }
  if (trained_) {
    report.learning_rate = learning_rate_at(settings_.optimizer, window) *
                           (last_ ? 1.0 : settings_.optimizer.inner_learning_rate_scale);
  }
  optimizer_.step(report.learning_rate);
  clear_gradients();
  committed_ = window;
  return report;
}

void ChunkBackend::clear_gradients() {
  for (TrainableTensor tensor : optimizer_.tensors()) tensor.gradient.zero_();
  finished_ = 0;
}

StageState ChunkBackend::state() const {
  // Not in inference mode: its tensors could not be changed by those who hold the state.
  const MemoryScope scope(account_, MemoryComponent::optimizer);
  StageState state;
  state.window = committed_;
  for (const TrainableTensor& tensor : adapter_) {
    state.tensors[lora_prefix + tensor.name] = tensor.value.clone();
  }
  for (const TrainableTensor& tensor : readout_.trainable())
    state.tensors[tensor.name] = tensor.value.clone();
  readout_.export_fitted(state.tensors);
  optimizer_.export_to(state);
  return state;
}

void ChunkBackend::restore(const StageState& state) {
  const c10::InferenceMode guard;
  const MemoryScope scope(account_, MemoryComponent::optimizer);
  open_.clear();
  open_together_.reset();
  if (stash_) stash_->clear();
  for (TrainableTensor& tensor : adapter_) copy_from_state(state, lora_prefix + tensor.name, tensor.value);
  for (TrainableTensor& tensor : readout_.trainable()) copy_from_state(state, tensor.name, tensor.value);
  readout_.import_fitted(state.tensors);
  optimizer_.import_from(state);
  chunk_.set_lora_active(adapts());
  clear_gradients();
  committed_ = state.window;
}

/// What is a matter of stages that have losses of their own, or of one that knows all gradients.
void check_reaches_all(const TrainingSettings& settings) {
  const auto refuse = [](const char* setting, const char* reason) {
    throw InputError(setting, std::string(reason) + " where the last stage's loss reaches all stages");
  };
  if (settings.loss.alpha != 1) refuse("alpha", "must be 1");
  for (const HeadKind head : {settings.loss.inner_head.kind, settings.loss.last_head.kind}) {
    if (head != HeadKind::fixed && head != HeadKind::restricted) {
      refuse("head", "must be static or restricted");
    }
  }
  if (settings.trained_stages) refuse("trained stages", "must be all");
  if (settings.optimizer.inner_learning_rate_scale != 1)
    refuse("learning rate scale of inner stages", "must be 1");
  if (settings.optimizer.clip_norm) refuse("clipping", "needs the norm over all stages, which none knows");
}

bool ChunkBackend::adapts() {
  if (trained_) return true;
  const std::vector<LoraPair*> pairs = chunk_.lora_pairs();
  return std::any_of(pairs.begin(), pairs.end(), [](const LoraPair* pair) {
    return at::count_nonzero(pair->b).item<std::int64_t>() > 0;
  });
}

}  // namespace

std::unique_ptr<StageBackend> make_chunk_backend(std::shared_ptr<const ModelFiles> model, StageIndex stage,
                                                 const std::vector<LayerRange>& partition,
                                                 const TrainingSettings& settings, MemoryAccount& account,
                                                 GradientReach reach) {
  std::int64_t next = 0;
  for (const LayerRange& range : partition) {
    if (range.first != next || range.last <= range.first) {
      throw InputError("partition", "stages must take consecutive layers, at least one each");
    }
    next = range.last;
  }
  if (next != model->config().layers) {
    throw InputError("partition", "covers " + std::to_string(next) + " layers, but the model has " +
                                      std::to_string(model->config().layers));
  }
  ZEROLOCK_INVARIANT(stage.value < partition.size(), "the stage is one of the partition's");
  settings.check(partition.size());
  if (reach != GradientReach::stage) check_reaches_all(settings);
  return std::make_unique<ChunkBackend>(std::move(model), stage, partition, settings, account, reach);
}

std::vector<LayerRange> equal_partition(std::int64_t layers, std::int64_t stages) {
  if (stages < 1 || stages > layers) {
    throw InputError("stages", std::to_string(stages) + " asked for; the model's " + std::to_string(layers) +
                                   " layers allow 1 to " + std::to_string(layers));
  }
  std::vector<LayerRange> partition;
  const std::int64_t rest = layers % stages;
  std::int64_t first = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t count = layers / stages + (stage >= stages - rest ? 1 : 0);
    partition.push_back({first, first + count});
    first += count;
  }
  return partition;
}

}  // namespace zerolock
