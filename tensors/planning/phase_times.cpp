#include "tensors/planning/phase_times.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/processor_time.hpp"
#include "tensors/planning/short_run.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {
namespace {

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

PhaseSeconds at_most(const PhaseSeconds& a, const PhaseSeconds& b) {
  return {std::min(a.forward, b.forward), std::min(a.backward, b.backward), std::min(a.step, b.step)};
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
    const double begin = thread_cpu_seconds();
    backend_->step(window_ = window_.next());
    spent.step = thread_cpu_seconds() - begin;
    return spent;
  }

 private:
  double forward() {
    Entry entry = entries_[static_cast<std::size_t>(begun_ % entries_.size())];
    entry.position = {WindowIndex{1}, begun_++};
    const double begin = thread_cpu_seconds();
    const at::Tensor hidden = backend_->begin(entry);
    const double spent = thread_cpu_seconds() - begin;
    open_.emplace_back(entry.position, hidden.sizes().vec());
    return spent;
  }

  double backward() {
    const auto [position, sizes] = open_.front();
    open_.pop_front();
    at::Tensor gradient;
    if (reach_ != GradientReach::stage && !last_)
      gradient = at::randn(sizes, at::kFloat).mul_(1e-3).to(type_);
    const double begin = thread_cpu_seconds();
    if (reach_ == GradientReach::stage) {
      backend_->finish(position);
    } else {
      backend_->backpropagate(position, std::move(gradient));
    }
    return thread_cpu_seconds() - begin;
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

RepeatedStage repeated_stage(const std::shared_ptr<const ModelFiles>& model, ShortRun run,
                             std::vector<Entry> entries, GradientReach reach, MemoryAccount& account) {
  if (reach != GradientReach::stage) run.settings.trained_stages.reset();
  run.settings.loss.inner_head.adapter_warm_up = 0;
  run.settings.loss.last_head.adapter_warm_up = 0;
  const auto shorter = std::make_shared<const ShortModel>(model, run.partition.back().last);
  if (run.stage.value > 0) {
    for (Entry& entry : entries) {
      entry.payload = random_hidden(entry.layout->rows(), model->config(), run.settings);
    }
  }
  auto backend = make_chunk_backend(shorter, run.stage, run.partition, run.settings, account, reach);
  const bool last = run.stage.value + 1 == run.partition.size();
  return {std::move(backend), std::move(entries), reach, last, scalar_type(run.settings.compute)};
}

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
  if (!known_.contains(kind)) {
    const bool alone = kind.first && kind.last;
    measure(alone ? std::vector<Kind>{kind}
                  : std::vector<Kind>{{true, false}, {false, false}, {false, true}});
  }
  const OfLayers& times = known_.at(kind);
  const PhaseSeconds one = times.at(1).at(reach);
  if (layers == 1) return one;
  const auto more = times.upper_bound(1);
  const PhaseSeconds two = more == times.end() ? sum(one, 1, one) : at_least(more->second.at(reach), one);
  const auto& [most_layers, most] = *times.rbegin();
  const PhaseSeconds per_layer =
      most_layers > 2 ? sum({}, 1 / static_cast<double>(most_layers - 2), sum(most.at(reach), -1, two))
                      : sum(two, -1, one);
  return sum(two, static_cast<double>(layers - 2), per_layer);
}

/// One, two, and as many as there may be beside the stages around.
std::vector<std::int64_t> PhaseTimes::layer_counts(const Kind& kind) const {
  const std::int64_t others = (kind.first ? 0 : 1) + (kind.last ? 0 : 1);
  const std::int64_t most = std::min(layers_max, model_->config().layers - others);
  std::vector<std::int64_t> counts;
  for (const std::int64_t layers : {std::int64_t{1}, std::int64_t{2}, most}) {
    if (layers <= most && (counts.empty() || layers > counts.back())) counts.push_back(layers);
  }
  return counts;
}

void PhaseTimes::measure(const std::vector<Kind>& kinds) {
  struct Trial {
    Kind kind;
    std::int64_t layers;
    GradientReach reach;
    RepeatedStage stage;
    PhaseSeconds fastest{HUGE_VAL, HUGE_VAL, HUGE_VAL};
  };
  MemoryAccount account;
  std::deque<Trial> trials;
  for (const Kind& kind : kinds) {
    for (const std::int64_t layers : layer_counts(kind)) {
      for (const auto& [reach, settings] : settings_) {
        trials.push_back({kind, layers, reach,
                          repeated_stage(model_, short_run(kind.first, kind.last, true, layers, settings),
                                         micro_batches_, reach, account)});
      }
    }
  }
  for (Trial& trial : trials) trial.stage.window();
  for (int i = 0; i < runs_; ++i) {
    for (Trial& trial : trials) trial.fastest = at_most(trial.fastest, trial.stage.window());
  }
  for (const Trial& trial : trials) {
    double forward = HUGE_VAL;
    for (const Trial& other : trials) {
      if (other.kind == trial.kind && other.layers == trial.layers) {
        forward = std::min(forward, other.fastest.forward);
      }
    }
    PhaseSeconds& seconds = known_[trial.kind][trial.layers][trial.reach];
    seconds = trial.fastest;
    seconds.forward = forward;
  }
}

}  // namespace zerolock
