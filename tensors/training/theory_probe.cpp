#include "tensors/training/theory_probe.hpp"

#include <c10/core/InferenceMode.h>

#include <cmath>
#include <string>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/base_format.hpp"
#include "tensors/training/chunk_backend.hpp"
#include "tensors/training/stage_readout.hpp"

namespace zerolock {
namespace {

/// Rows whose distributions exist at once.
constexpr std::int64_t block_rows = 64;

/// What each micro-batch of the probe rows brings to a stage, or makes it send.
using HiddenStates = std::vector<at::Tensor>;

at::Tensor log_probabilities(const ReadoutHead& head, const at::Tensor& hidden, ExpansionScratch& scratch) {
  const at::Tensor features = head.features(hidden, nullptr);
  at::Tensor logits = at::empty({hidden.size(0), head.outputs().outputs()}, features.options());
  head.outputs().multiply(features, logits, scratch);
  return at::log_softmax(logits.to(at::kDouble), 1);
}

/// Sum over rows of KL(p || q).
double divergence(const at::Tensor& log_p, const at::Tensor& log_q) {
  return log_p.exp().mul_(log_p.sub(log_q)).sum().item<double>();
}

void require_frozen(const HeadSettings& head) {
  if (head.kind == HeadKind::adapter || (head.kind == HeadKind::bottleneck && head.bottleneck_trained)) {
    throw InputError("--head",
                     "a readout that is trained along changes with the weights, and the theory "
                     "is about readouts that stand still");
  }
}

template <class Value>
double mean_over_stages(const std::vector<StageTheory>& stages, const Value& value) {
  double sum = 0;
  for (const StageTheory& stage : stages) sum += value(stage);
  return sum / static_cast<double>(stages.size());
}

}  // namespace

double TheoryPoint::loss() const {
  return mean_over_stages(stages, [](const StageTheory& stage) { return stage.loss; });
}

double TheoryPoint::gradient_norm() const {
  const double squares = mean_over_stages(
      stages, [](const StageTheory& stage) { return stage.gradient_norm * stage.gradient_norm; });
  return std::sqrt(squares / static_cast<double>(stages.size()));
}

double TheoryPoint::target_distance() const {
  return mean_over_stages(stages, [](const StageTheory& stage) { return stage.target_distance; });
}

double TheoryPoint::readout_change() const {
  return mean_over_stages(stages, [](const StageTheory& stage) { return stage.readout_change; });
}

double TheoryPoint::descent() const {
  return mean_over_stages(stages, [](const StageTheory& stage) { return stage.descent; });
}

double TheoryPoint::drift() const {
  return mean_over_stages(stages, [](const StageTheory& stage) { return stage.drift; });
}

at::Tensor log_geometric_target(const at::Tensor& log_q, const std::vector<std::int64_t>& outputs_of_targets,
                                std::int64_t outputs, double alpha, double smoothing) {
  const auto rows = static_cast<std::int64_t>(outputs_of_targets.size());
  const double share = smoothing / static_cast<double>(outputs);
  at::Tensor log_l = at::full({rows, outputs}, std::log(share), at::kDouble);
  const at::Tensor columns = at::tensor(outputs_of_targets, at::kLong).unsqueeze(1);
  log_l.scatter_(1, columns, std::log(1 - smoothing + share));
  if (!log_q.defined()) return log_l;
  return at::log_softmax(log_l.mul_(alpha).add_(log_q, 1 - alpha), 1);
}

/// A stage that is never trained, but put into the states of one that is.
class TheoryProbe::Stage {
 public:
  Stage(const std::shared_ptr<const ModelFiles>& model, StageIndex stage,
        const std::vector<LayerRange>& partition, const TrainingSettings& settings, MemoryAccount& account)
      : settings_(settings),
        backend_(make_chunk_backend(model, stage, partition, settings, account)),
        readout_(*model, stage, partition, settings, base_conversion(settings.base)),
        scratch_(scalar_type(settings.compute)) {}

  /// Fills `theory` and replaces `received` by what the stage sends on.
  void measure(const StageState& state, const std::vector<Entry>& rows, HiddenStates& received,
               StageTheory& theory) {
    const c10::InferenceMode guard;
    readout_.import_fitted(state.tensors);
    HiddenStates sent;
    const bool first_time = received_.empty();
    // The first stage receives the same tokens always.
    const bool inputs_moved = !first_time && !received_.front().is_same(received.front());
    const double before_drift = inputs_moved ? loss_at(state, rows, received_, sent) : 0;
    sent.clear();
    theory.loss = loss_at(state, rows, received, sent);
    if (inputs_moved) theory.drift = theory.loss - before_drift;
    if (!first_time) theory.descent = (inputs_moved ? before_drift : theory.loss) - loss_;
    theory.gradient_norm = backend_->step(WindowIndex{1}).gradient_norm;  // of what loss_at added up
    for (std::size_t i = 0; i < rows.size(); ++i) {
      add_distances(*rows[i].layout, received[i], sent[i], sent_.empty() ? at::Tensor() : sent_[i], theory);
    }
    theory.target_distance /= static_cast<double>(rows.size());
    theory.readout_change /= static_cast<double>(rows.size());
    loss_ = theory.loss;
    received_ = std::move(received);
    sent_ = sent;
    received = std::move(sent);
  }

 private:
  double loss_at(const StageState& state, const std::vector<Entry>& rows, const HiddenStates& received,
                 HiddenStates& sent) {
    backend_->restore(state);
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Entry entry = rows[i];
      entry.payload = received[i];
      sent.push_back(backend_->begin(entry));
      sum += backend_->finish(entry.position).loss;
    }
    return sum / static_cast<double>(rows.size());
  }

  /// Adds the means over one micro-batch's supervised rows. sent_before may be undefined.
  void add_distances(const MicroBatchLayout& layout, const at::Tensor& received, const at::Tensor& sent,
                     const at::Tensor& sent_before, StageTheory& theory) {
    const auto count = static_cast<std::int64_t>(layout.supervised_rows.size());
    const ReadoutHead& head = *readout_.head();
    for (std::int64_t first = 0; first < count; first += block_rows) {
      const std::int64_t last = std::min(count, first + block_rows);
      const std::vector<std::int64_t> rows(layout.supervised_rows.begin() + first,
                                           layout.supervised_rows.begin() + last);
      std::vector<std::int64_t> outputs;
      for (std::int64_t i = first; i < last; ++i) {
        outputs.push_back(head.output_of(layout.targets[static_cast<std::size_t>(i)]));
      }
      const at::Tensor index = at::tensor(rows, at::kLong);
      const at::Tensor log_p = log_probabilities(head, sent.index_select(0, index), scratch_);
      at::Tensor log_q;
      if (readout_.compares()) {
        log_q = log_probabilities(*readout_.previous(), received.index_select(0, index), scratch_);
      }
      const at::Tensor log_target = log_geometric_target(log_q, outputs, log_p.size(1), settings_.loss.alpha,
                                                         settings_.loss.label_smoothing);
      theory.target_distance += divergence(log_p, log_target) / static_cast<double>(count);
      if (!sent_before.defined()) continue;
      const at::Tensor log_before = log_probabilities(head, sent_before.index_select(0, index), scratch_);
      theory.readout_change += divergence(log_p, log_before) / static_cast<double>(count);
    }
  }

  TrainingSettings settings_;
  std::unique_ptr<StageBackend> backend_;
  StageReadout readout_;
  ExpansionScratch scratch_;
  // Of the last measurement.
  double loss_ = 0;
  HiddenStates received_;
  HiddenStates sent_;
};

TheoryProbe::TheoryProbe(std::shared_ptr<const ModelFiles> model, const std::vector<LayerRange>& partition,
                         const TrainingSettings& settings, std::vector<Entry> rows)
    : rows_(std::move(rows)) {
  if (settings.trained_stages && settings.trained_stages->size() < partition.size()) {
    throw InputError("--train-stages", "the theory is about stages that all train");
  }
  require_frozen(settings.loss.inner_head);
  require_frozen(settings.loss.last_head);
  if (rows_.empty()) throw InputError("probe", "needs at least one row");
  for (const Entry& entry : rows_) {
    if (entry.layout->supervised_rows.empty()) {
      throw InputError("probe", "micro-batch " + std::to_string(entry.position.micro_batch) +
                                    " of its rows has nothing supervised");
    }
  }
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    stages_.push_back(std::make_unique<Stage>(model, StageIndex{stage}, partition, settings, account_));
  }
}

TheoryProbe::~TheoryProbe() = default;

TheoryPoint TheoryProbe::measure(const std::vector<StageState>& states) {
  ZEROLOCK_INVARIANT(states.size() == stages_.size(), "a state for each stage");
  TheoryPoint point;
  HiddenStates received;
  for (const Entry& entry : rows_) received.push_back(entry.payload);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    stages_[stage]->measure(states[stage], rows_, received, point.stages.emplace_back());
  }
  return point;
}

}  // namespace zerolock
