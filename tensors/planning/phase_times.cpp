#include "tensors/planning/phase_times.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/planning/short_run.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// a + factor * b, and no less than nothing: differences of small times are noise.
PhaseSeconds sum(const PhaseSeconds& a, double factor, const PhaseSeconds& b) {
  return {std::max(0.0, a.forward + factor * b.forward), std::max(0.0, a.backward + factor * b.backward),
          std::max(0.0, a.step + factor * b.step)};
}

/// More layers take no less time, whatever was measured.
PhaseSeconds at_least(const PhaseSeconds& more, const PhaseSeconds& less) {
  return {std::max(more.forward, less.forward), std::max(more.backward, less.backward),
          std::max(more.step, less.step)};
}

/// A stage that trains the same micro-batches again and again.
class RepeatedStage {
 public:
  RepeatedStage(std::unique_ptr<StageBackend> backend, std::vector<Entry> entries, GradientReach reach,
                bool last, at::ScalarType type)
      : backend_(std::move(backend)), entries_(std::move(entries)), reach_(reach), last_(last), type_(type) {
    ZEROLOCK_INVARIANT(!backend_->needs_calibration(), "heads that need no calibration");
    // Steps come while micro-batches are open, so that weights are stashed.
    if (reach == GradientReach::stashed && !last) forward();
  }

  PhaseSeconds window() {
    PhaseSeconds spent;
    const auto count = static_cast<double>(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      spent.forward += forward() / count;
      spent.backward += backward() / count;
    }
    const double begin = thread_seconds();
    backend_->step(window_ = window_.next());
    spent.step = thread_seconds() - begin;
    return spent;
  }

 private:
  double forward() {
    Entry entry = entries_[static_cast<std::size_t>(begun_ % entries_.size())];
    entry.position = {WindowIndex{1}, begun_++};
    const double begin = thread_seconds();
    const at::Tensor hidden = backend_->begin(entry);
    const double spent = thread_seconds() - begin;
    open_.emplace_back(entry.position, hidden.sizes().vec());
    return spent;
  }

  double backward() {
    const auto [position, sizes] = open_.front();
    open_.pop_front();
    at::Tensor gradient;
    if (reach_ != GradientReach::stage && !last_)
      gradient = at::randn(sizes, at::kFloat).mul_(1e-3).to(type_);
    const double begin = thread_seconds();
    if (reach_ == GradientReach::stage) {
      backend_->finish(position);
    } else {
      backend_->backpropagate(position, std::move(gradient));
    }
    return thread_seconds() - begin;
  }

  std::unique_ptr<StageBackend> backend_;
  std::vector<Entry> entries_;
  GradientReach reach_;
  bool last_;
  at::ScalarType type_;
  WindowIndex window_;
  std::uint64_t begun_ = 0;
  std::deque<std::pair<BatchPosition, std::vector<std::int64_t>>> open_;
};

}  // namespace

PhaseTimes::PhaseTimes(std::shared_ptr<const ModelFiles> model,
                       std::map<GradientReach, TrainingSettings> settings, std::vector<Entry> micro_batches,
                       int runs)
    : model_(std::move(model)),
      settings_(std::move(settings)),
      micro_batches_(std::move(micro_batches)),
      runs_(runs) {
  ZEROLOCK_INVARIANT(!settings_.empty() && !micro_batches_.empty() && runs_ > 0, "something to measure with");
}

PhaseSeconds PhaseTimes::of(const PlannedStage& stage, GradientReach reach) {
  const Kind kind{stage.first(), stage.last()};
  const std::int64_t layers = stage.layers.count();
  ZEROLOCK_INVARIANT(layers > 0, "a stage has layers");
  auto known = known_.find(kind);
  if (known == known_.end()) known = known_.emplace(kind, measure(kind)).first;
  const Measured& times = known->second;
  if (layers == 1) return times.one_layer.at(reach);
  return sum(times.two_layers.at(reach), static_cast<double>(layers - 2), times.per_layer.at(reach));
}

PhaseTimes::Measured PhaseTimes::measure(const Kind& kind) const {
  const std::int64_t others = (kind.first ? 0 : 1) + (kind.last ? 0 : 1);
  const std::int64_t most = std::min(layers_max, model_->config().layers - others);
  ZEROLOCK_INVARIANT(most >= 1, "a model has layers for a stage of this kind");
  Measured times;
  times.one_layer = measure(kind, 1);
  times.two_layers = most >= 2 ? measure(kind, 2) : times.one_layer;
  const OfReaches more = most > 2 ? measure(kind, most) : times.two_layers;
  for (const auto& [reach, settings] : settings_) {
    const PhaseSeconds& one = times.one_layer.at(reach);
    PhaseSeconds& two = times.two_layers.at(reach);
    two = most < 2 ? sum(one, 1, one) : at_least(two, one);
    const PhaseSeconds& less = most > 2 ? two : one;
    const double steps = most > 2 ? static_cast<double>(most - 2) : 1.0;
    times.per_layer[reach] = sum({}, 1 / steps, sum(most < 2 ? two : more.at(reach), -1, less));
  }
  return times;
}

PhaseTimes::OfReaches PhaseTimes::measure(const Kind& kind, std::int64_t layers) const {
  MemoryAccount account;
  std::map<GradientReach, RepeatedStage> stages;
  for (const auto& [reach, settings] : settings_) {
    ShortRun run = short_run(kind.first, kind.last, true, layers, settings);
    if (reach != GradientReach::stage) run.settings.trained_stages.reset();
    run.settings.loss.inner_head.adapter_warm_up = 0;
    run.settings.loss.last_head.adapter_warm_up = 0;
    const auto model = std::make_shared<const ShortModel>(model_, run.partition.back().last);
    std::vector<Entry> entries = micro_batches_;
    for (Entry& entry : entries) {
      if (!kind.first) entry.payload = random_hidden(entry.layout->rows(), model->config(), run.settings);
    }
    stages.emplace(std::piecewise_construct, std::forward_as_tuple(reach),
                   std::forward_as_tuple(
                       make_chunk_backend(model, run.stage, run.partition, run.settings, account, reach),
                       std::move(entries), reach, kind.last, scalar_type(settings.compute)));
  }
  for (auto& [reach, stage] : stages) stage.window();
  std::vector<double> forward;
  std::map<GradientReach, std::vector<double>> backward;
  std::map<GradientReach, std::vector<double>> step;
  for (int i = 0; i < runs_; ++i) {
    for (auto& [reach, stage] : stages) {
      const PhaseSeconds spent = stage.window();
      forward.push_back(spent.forward);
      backward[reach].push_back(spent.backward);
      step[reach].push_back(spent.step);
    }
  }
  OfReaches seconds;
  for (const auto& [reach, stage] : stages) {
    seconds[reach] = {median(forward), median(backward[reach]), median(step[reach])};
  }
  return seconds;
}

}  // namespace zerolock
