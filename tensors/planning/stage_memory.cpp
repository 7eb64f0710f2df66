#include "tensors/planning/stage_memory.hpp"

#include <algorithm>
#include <optional>

#include "tensors/planning/chunk_memory.hpp"
#include "tensors/planning/head_memory.hpp"

namespace zerolock {
namespace {

using Component = MemoryComponent;

/// Walks through the life of one stage: opening, calibration, a micro-batch, a step, a checkpoint.
class StageWalk {
 public:
  StageWalk(const ModelSizes& model, const TrainingSettings& settings, const PlannedStage& stage,
            const StageLoad& load)
      : model_(model),
        settings_(settings),
        stage_(stage),
        load_(load),
        element_(static_cast<std::int64_t>(c10::elementSize(scalar_type(settings.compute)))),
        wide_(settings.compute == ComputeType::fp64 ? 8 : 4),
        trained_(settings.trains(stage.stage)),
        embeds_(settings.embeds(stage.stage)),
        own_(settings.loss.head_of(stage.stage, stage.stages)),
        previous_(previous_head(settings, stage.stage, stage.stages)) {}

  PlannedMemory run() {
    open();
    if (load_.calibration_rows > 0) calibrate();
    walk_.take(Component::optimizer, state_bytes());  // a copy stands until it is on disk
    train();
    step();
    return walk_.highest();
  }

 private:
  [[nodiscard]] const LayerSizes& layer(std::int64_t index) const {
    return model_.layers[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] bool adapts(Projection p) const {
    const std::vector<std::string>& targets = settings_.lora.targets;
    return std::find(targets.begin(), targets.end(), target_name(p)) != targets.end();
  }
  [[nodiscard]] HeadMemory head(const HeadSettings& settings) const { return {settings, model_, settings_}; }
  [[nodiscard]] bool restricted() const { return !own_.restricted_tokens.empty(); }
  /// Whether a head multiplies the rows that the stage has of the model's readout matrix.
  [[nodiscard]] bool reads_rows() const {
    return trained_ &&
           (head(own_).reads_model_rows() || (previous_ && head(previous_->settings).reads_model_rows()));
  }
  [[nodiscard]] std::int64_t hidden_bytes(std::int64_t rows) const {
    return rows * model_.config.width * element_;
  }

  void open();
  void open_layers();
  void open_heads();
  [[nodiscard]] std::int64_t mapped_bytes() const;
  [[nodiscard]] std::int64_t scratch_bytes() const;
  void calibrate();
  void fit();
  void train();
  [[nodiscard]] std::int64_t state_bytes() const;
  void step();
  void embed(std::int64_t rows);
  [[nodiscard]] ChunkMemory chunk(const MicroBatchShape& shape, bool adapted);

  const ModelSizes& model_;
  const TrainingSettings& settings_;
  const PlannedStage& stage_;
  const StageLoad& load_;
  std::int64_t element_;
  std::int64_t wide_;
  bool trained_;
  bool embeds_;
  const HeadSettings& own_;
  std::optional<PreviousHead> previous_;
  MemoryWalk walk_;
  std::int64_t lora_bytes_ = 0;
  std::int64_t largest_pair_bytes_ = 0;
};

// -- Opening

void StageWalk::open() {
  open_layers();
  if (trained_) {
    open_heads();
    if (settings_.optimizer.kind == OptimizerKind::adamw) {
      walk_.take(Component::optimizer, 2 * (lora_bytes_ + head(own_).trainable_bytes()));
    }
  } else {
    walk_.give(Component::optimizer, lora_bytes_);  // gradient sums that nobody needs
  }
  walk_.take(Component::weights, mapped_bytes() + scratch_bytes());
  const MicroBatchShape& shape = load_.micro_batch;
  walk_.take(Component::activations, chunk(shape, trained_).rotary_bytes());
}

void StageWalk::open_layers() {
  for (std::int64_t l = stage_.layers.first; l < stage_.layers.last; ++l) {
    walk_.take(Component::weights, 2 * model_.config.width * element_);  // norms
    for (std::size_t i = 0; i < projection_count; ++i) {
      const MatrixSize& matrix = layer(l).projections[i];
      if (matrix.bias) walk_.take(Component::weights, matrix.rows * element_);
      if (!held_in_file(matrix, settings_.base)) {
        walk_.take(Component::weights, held_bytes(matrix, settings_.base));
      }
      if (!adapts(static_cast<Projection>(i))) continue;
      const std::int64_t pair = settings_.lora.rank * (matrix.rows + matrix.columns) * wide_;
      walk_.take(Component::optimizer, 2 * pair);  // values and gradient sums
      lora_bytes_ += pair;
      largest_pair_bytes_ =
          std::max(largest_pair_bytes_, settings_.lora.rank * std::max(matrix.rows, matrix.columns) * wide_);
    }
  }
}

void StageWalk::open_heads() {
  const std::int64_t gathered =
      static_cast<std::int64_t>(own_.restricted_tokens.size()) * model_.config.width;
  std::int64_t rows = 0;  // memory of the stage's own
  if (restricted()) {
    rows = gathered * element_;
    walk_.touch(Component::weights, gathered * 4);
  } else if (!held_in_file(model_.head, settings_.base)) {
    rows = held_bytes(model_.head, settings_.base);
  }
  walk_.take(Component::weights, rows);
  head(own_).make(walk_);
  if (previous_ && !previous_->same_as_own) head(previous_->settings).make(walk_);
  if (!reads_rows()) walk_.give(Component::weights, rows);
}

/// Of weights that lie in the model's file; a tied head and the embedding are the same bytes.
std::int64_t StageWalk::mapped_bytes() const {
  std::int64_t bytes = 0;
  for (std::int64_t l = stage_.layers.first; l < stage_.layers.last; ++l) {
    for (const MatrixSize& matrix : layer(l).projections) {
      if (held_in_file(matrix, settings_.base)) bytes += matrix.stored_bytes;
    }
  }
  const bool head_is_mapped = reads_rows() && !restricted() && held_in_file(model_.head, settings_.base);
  if (head_is_mapped) bytes += model_.head.stored_bytes;
  if (embeds_ && !(head_is_mapped && model_.config.tied_embeddings)) {
    bytes += model_.embedding.stored_bytes;
  }
  return bytes;
}

/// Of the largest weight that has to be expanded for its products, in fp32 and the compute type.
std::int64_t StageWalk::scratch_bytes() const {
  std::int64_t elements = 0;
  for (std::int64_t l = stage_.layers.first; l < stage_.layers.last; ++l) {
    for (const MatrixSize& matrix : layer(l).projections) {
      if (!multiplied_in_place(matrix, settings_)) elements = std::max(elements, matrix.elements());
    }
  }
  if (reads_rows() && !restricted() && !multiplied_in_place(model_.head, settings_)) {
    constexpr std::int64_t tile_rows_min = 512;
    elements = std::max(elements, std::min(model_.head.rows, tile_rows_min) * model_.config.width);
  }
  return elements * (4 + (settings_.compute == ComputeType::fp32 ? 0 : element_));
}

// -- Running

ChunkMemory StageWalk::chunk(const MicroBatchShape& shape, bool adapted) {
  return {model_.config, settings_, stage_.layers.count(), shape, adapted, walk_};
}

/// The input of a stage that embeds is its own.
void StageWalk::embed(std::int64_t rows) {
  if (!embeds_) return;
  walk_.take(Component::activations, hidden_bytes(rows));
  if (settings_.compute != ComputeType::fp32) {
    walk_.touch(Component::activations, rows * model_.config.width * 4);
  }
}

void StageWalk::calibrate() {
  const MicroBatchShape& shape = load_.calibration_batch;
  const std::int64_t hidden = hidden_bytes(shape.rows);
  const std::int64_t kept = load_.calibration_rows * model_.config.width * wide_;
  const bool fits_own = trained_ && own_.kind == HeadKind::calibrated;
  const bool fits_previous =
      previous_ && !previous_->same_as_own && previous_->settings.kind == HeadKind::calibrated;
  const std::int64_t row_sets = (fits_own ? 1 : 0) + (fits_previous ? 1 : 0) + (stage_.last() ? 1 : 0);
  const HeldEntries& held = load_.held_in_calibration;
  const std::int64_t standing = (held.outputs - 1 + held.inputs) * hidden + row_sets * kept;
  walk_.take(Component::buffers, standing);
  embed(shape.rows);
  chunk(shape, false).forward(false);
  walk_.touch(Component::activations, 2 * hidden_bytes(shape.supervised_rows));
  walk_.give(Component::buffers, hidden);
  if (embeds_) walk_.give(Component::activations, hidden);
  if (stage_.last()) walk_.touch(Component::buffers, kept);  // handed over as one tensor
  if (fits_own || fits_previous) fit();
  walk_.give(Component::buffers, standing);
}

/// fit_affine_map: the normal equations and their solution in fp64.
void StageWalk::fit() {
  constexpr std::int64_t slab_rows = 256;
  const std::int64_t width = model_.config.width;
  const std::int64_t square = width * width * 8;
  const std::int64_t rows = load_.calibration_rows * width * wide_;
  const std::int64_t slab = std::min(slab_rows, load_.calibration_rows) * width * 8;
  walk_.take(Component::activations, rows + 2 * square);
  walk_.touch(Component::activations, 3 * slab);
  walk_.touch(Component::activations, 3 * square);  // factor, and the solution with its copy of the factor
  walk_.give(Component::activations, rows + 2 * square);
}

void StageWalk::train() {
  const MicroBatchShape& shape = load_.micro_batch;
  const bool learns = trained_ && shape.supervised_rows > 0;
  const std::int64_t hidden = hidden_bytes(shape.rows);
  const std::int64_t some = hidden_bytes(shape.supervised_rows);
  const std::int64_t standing = (load_.held.outputs - 1 + load_.held.inputs) * hidden;
  walk_.take(Component::buffers, standing);
  embed(shape.rows);
  ChunkMemory layers = chunk(shape, trained_);
  layers.forward(learns);
  if (learns) {
    const std::int64_t selected = some * (previous_ ? 2 : 1);
    walk_.take(Component::activations, selected);
    walk_.touch(Component::activations, shape.supervised_rows * 8);
    head(own_).loss(shape.supervised_rows, previous_, walk_);
    layers.backward(shape.supervised_rows);
    walk_.give(Component::loss, some);
    walk_.give(Component::activations, selected);
  }
  if (embeds_) walk_.give(Component::activations, hidden);
  walk_.give(Component::buffers, standing + hidden);
}

/// What a checkpoint holds.
std::int64_t StageWalk::state_bytes() const {
  if (!trained_) return lora_bytes_;
  const HeadMemory own = head(own_);
  const std::int64_t trainable = lora_bytes_ + own.trainable_bytes();
  std::int64_t bytes = trainable * (settings_.optimizer.kind == OptimizerKind::adamw ? 3 : 1);
  bytes += own.fitted_bytes();
  if (previous_ && !previous_->same_as_own) bytes += head(previous_->settings).fitted_bytes();
  return bytes;
}

/// AdamW goes tensor by tensor, with a temporary of each one's size.
void StageWalk::step() {
  if (!trained_ || settings_.optimizer.kind != OptimizerKind::adamw) return;
  walk_.touch(Component::optimizer, std::max(largest_pair_bytes_, head(own_).trainable_bytes() / 2));
}

}  // namespace

PlannedMemory stage_memory(const ModelSizes& model, const TrainingSettings& settings,
                           const PlannedStage& stage, const StageLoad& load) {
  return StageWalk(model, settings, stage, load).run();
}

namespace {

/// Whether a stage's account has what waits before it: entries of another process, or those that the batch
/// source made in this one. Token ids are too small to count.
bool holds_inputs(const RunBuffers& run, const PlannedStage& stage) {
  return stage.first() ? run.source_embeds : run.apart;
}

}  // namespace

HeldEntries entries_held(const RunBuffers& run, const PlannedStage& stage, std::int64_t entry_bytes) {
  // The scheduler's lead: whole windows that give each stage a micro-batch, and those of a checkpoint.
  const auto stages = static_cast<std::int64_t>(stage.stages);
  const std::int64_t ahead = (stages + run.accumulate) / run.accumulate + 1;
  const std::int64_t lead = (run.checkpoint_every + ahead) * run.accumulate;
  const std::int64_t behind = static_cast<std::int64_t>(stage.stages - stage.stage.value) - 1;
  const std::int64_t window = run.checkpoint_every * run.accumulate;
  const std::int64_t bound =
      std::max<std::int64_t>(run.bytes_max / std::max<std::int64_t>(entry_bytes, 1), 1);
  HeldEntries held;
  if (!stage.last()) held.outputs = std::min({lead, window + behind * run.depth + 1, bound + 1});
  // The source of this process makes one more, and keeps it while credit lacks.
  const std::int64_t made = stage.first() && !run.apart ? 1 : 0;
  if (holds_inputs(run, stage)) held.inputs = std::min({lead, window + run.depth + made, bound + made});
  return held;
}

HeldEntries entries_held_in_calibration(const RunBuffers& run, const PlannedStage& stage,
                                        std::int64_t entry_bytes) {
  const std::int64_t bound =
      std::max<std::int64_t>(run.bytes_max / std::max<std::int64_t>(entry_bytes, 1), 1);
  HeldEntries held;
  if (!stage.last()) held.outputs = std::min(run.calibration_micro_batches, bound) + 1;
  if (holds_inputs(run, stage)) held.inputs = std::min(run.calibration_micro_batches, bound);
  return held;
}

}  // namespace zerolock
