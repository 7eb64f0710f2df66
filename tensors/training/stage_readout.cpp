#include "tensors/training/stage_readout.hpp"

#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/bottleneck_head.hpp"
#include "tensors/training/frozen_head.hpp"

namespace zerolock {
namespace {

HeadPlace place_behind(std::int64_t layer, const char* role, std::uint64_t seed) {
  return {"head.model.layers." + std::to_string(layer) + "." + role, seed};
}

bool is_frozen(HeadKind kind) {
  return kind == HeadKind::fixed || kind == HeadKind::restricted;
}

bool compares_with_previous(const TrainingSettings& settings, StageIndex stage) {
  return settings.trains(stage) && settings.loss.alpha < 1 &&
         (stage.value > 0 || settings.loss.first_chunk_consistency);
}

}  // namespace

std::optional<PreviousHead> previous_head(const TrainingSettings& settings, StageIndex stage,
                                          std::uint64_t stages) {
  if (!compares_with_previous(settings, stage)) return std::nullopt;
  const HeadSettings& own = settings.loss.head_of(stage, stages);
  // The embeddings have no stage before them; they are read as the model reads its final state.
  HeadSettings wanted = stage.value == 0 ? HeadSettings{} : settings.loss.inner_head;
  if (wanted.kind == HeadKind::adapter ||
      (wanted.kind == HeadKind::bottleneck && wanted.bottleneck_trained)) {
    throw InputError("alpha",
                     "below 1 compares with the previous stage's readout, and one that is trained "
                     "along is not known here: use alpha 1 or another inner head");
  }
  wanted.restricted_tokens = own.restricted_tokens;
  if (is_frozen(wanted.kind))
    wanted.kind = own.restricted_tokens.empty() ? HeadKind::fixed : HeadKind::restricted;
  const bool alike = is_frozen(wanted.kind)
                         ? is_frozen(own.kind)
                         : wanted.kind == HeadKind::bottleneck && own.kind == wanted.kind &&
                               wanted.bottleneck_rank == own.bottleneck_rank && !own.bottleneck_trained;
  return PreviousHead{std::move(wanted), alike};
}

StageReadout::StageReadout(const ModelFiles& model, StageIndex stage,
                           const std::vector<LayerRange>& partition, const TrainingSettings& settings,
                           const WeightTransform& transform)
    : settings_(settings.loss),
      task_only_(stage.value == 0 && !settings.loss.first_chunk_consistency),
      ridge_(settings.loss.inner_head.ridge),
      own_rows_(settings.calibration_rows_max),
      previous_rows_(settings.calibration_rows_max),
      target_rows_(settings.calibration_rows_max) {
  const std::uint64_t stages = partition.size();
  gives_targets_ = stage.value + 1 == stages && settings.loss.inner_head.kind == HeadKind::calibrated;
  if (!settings.trains(stage)) return;
  const at::ScalarType type = scalar_type(settings.compute);
  const LayerRange& range = partition[stage.value];
  const HeadSettings& own = settings.loss.head_of(stage, stages);
  const std::shared_ptr<const TokenRows> rows =
      make_token_rows(model, own.restricted_tokens, type, transform);
  own_ = make_readout_head(model, own, place_behind(range.last - 1, "readout", settings.seed), type, rows);
  if (own.kind == HeadKind::calibrated) calibrated_own_ = static_cast<CalibratedHead*>(own_.get());
  if (own.kind == HeadKind::adapter) warm_up_ = own.adapter_warm_up;
  const std::optional<PreviousHead> previous = previous_head(settings, stage, stages);
  if (previous && previous->same_as_own) {
    previous_ = own_.get();
  } else if (previous) {
    previous_of_its_own_ = make_readout_head(
        model, previous->settings, place_behind(range.first, "previous_readout", settings.seed), type, rows);
    previous_ = previous_of_its_own_.get();
    if (previous->settings.kind == HeadKind::calibrated) {
      calibrated_previous_ = static_cast<CalibratedHead*>(previous_of_its_own_.get());
    }
  }
  const auto reads = [&](const ReadoutHead* head) {
    return head != nullptr && &head->outputs() == &rows->matrix;
  };
  reads_model_rows_ = !rows->matrix.gathered() && (reads(own_.get()) || reads(previous_));
}

std::vector<TrainableTensor> StageReadout::trainable() const {
  return own_ ? own_->trainable() : std::vector<TrainableTensor>{};
}

ReadoutLossOptions StageReadout::loss_options() const {
  ReadoutLossOptions options;
  options.direction = settings_.direction;
  options.form = settings_.form;
  options.label_smoothing = settings_.label_smoothing;
  options.task_weight = task_only_ ? 1.0 : settings_.alpha;
  options.consistency_weight = compares() ? 1.0 - settings_.alpha : 0.0;
  return options;
}

ReadoutLoss StageReadout::loss(const at::Tensor& hidden, const at::Tensor& received,
                               const std::vector<std::int64_t>& targets, ExpansionScratch& scratch) {
  const PreviousReadout previous{previous_, received};
  return readout_loss(*own_, hidden, targets, compares() ? &previous : nullptr, loss_options(), scratch);
}

bool StageReadout::needs_calibration() const {
  return (calibrated_own_ != nullptr && !calibrated_own_->fitted()) ||
         (calibrated_previous_ != nullptr && !calibrated_previous_->fitted());
}

void StageReadout::keep_for_calibration(const at::Tensor& hidden, const at::Tensor& received) {
  const MemoryScope scope(MemoryComponent::buffers);
  if (calibrated_own_ != nullptr && !calibrated_own_->fitted()) own_rows_.add(hidden);
  if (calibrated_previous_ != nullptr && !calibrated_previous_->fitted()) previous_rows_.add(received);
  if (gives_targets_) target_rows_.add(hidden);
}

void StageReadout::fit(const at::Tensor& targets) {
  if (calibrated_own_ != nullptr && !calibrated_own_->fitted()) fit(*calibrated_own_, own_rows_, targets);
  if (calibrated_previous_ != nullptr && !calibrated_previous_->fitted()) {
    fit(*calibrated_previous_, previous_rows_, targets);
  }
  own_rows_.clear();
  previous_rows_.clear();
  target_rows_.clear();
}

void StageReadout::fit(CalibratedHead& head, const CalibrationRows& rows, const at::Tensor& targets) const {
  const at::Tensor x = rows.all();
  if (!x.defined() || !targets.defined() || x.sizes() != targets.sizes()) {
    throw RunError("calibration kept " + std::to_string(rows.count()) + " rows, but " +
                   std::to_string(targets.defined() ? targets.size(0) : 0) + " target rows came");
  }
  head.set_map(fit_affine_map(x, targets, ridge_));
}

void StageReadout::export_fitted(std::map<std::string, at::Tensor>& tensors) const {
  if (own_) own_->export_fitted(tensors);
  if (previous_of_its_own_) previous_of_its_own_->export_fitted(tensors);
}

void StageReadout::import_fitted(const std::map<std::string, at::Tensor>& tensors) {
  if (own_) own_->import_fitted(tensors);
  if (previous_of_its_own_) previous_of_its_own_->import_fitted(tensors);
  own_rows_.clear();
  previous_rows_.clear();
  target_rows_.clear();
}

}  // namespace zerolock
