#include "tensors/planning/stage_times.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/processor_time.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/planning/short_run.hpp"
#include "tensors/training/base_format.hpp"
#include "tensors/training/chunk_backend.hpp"
#include "tensors/training/stage_readout.hpp"

namespace zerolock {
namespace {

/// The median of what a few runs return, after one that is not looked at.
template <class Work>
double median_of(const Work& work) {
  constexpr int runs = 3;
  work();
  std::array<double, runs> results{};
  for (double& result : results) result = work();
  std::sort(results.begin(), results.end());
  return results[runs / 2];
}

template <class Work>
double seconds_of(const Work& work) {
  return median_of([&] {
    const double begin = thread_cpu_seconds();
    work();
    return thread_cpu_seconds() - begin;
  });
}

/// Maps that change nothing, under the names that readouts of a stage have in its state.
void put_identities(StageState& state, const LayerRange& range, std::int64_t width) {
  const std::string prefix = "head.model.layers.";
  for (const std::string& name : {prefix + std::to_string(range.last - 1) + ".readout",
                                  prefix + std::to_string(range.first) + ".previous_readout"}) {
    state.tensors[name + ".A"] = at::eye(width, at::kFloat);
    state.tensors[name + ".b"] = at::zeros({width}, at::kFloat);
  }
}

}  // namespace

StageTimes::StageTimes(std::shared_ptr<const ModelFiles> model, const TrainingSettings& settings,
                       std::vector<Entry> micro_batches, std::int64_t accumulate)
    : model_(std::move(model)),
      settings_(settings),
      micro_batches_(std::move(micro_batches)),
      accumulate_(accumulate) {
  ZEROLOCK_INVARIANT(!micro_batches_.empty() && accumulate_ > 0, "something to measure with");
  // A stage whose readout warms up has no backward yet; what is planned is the long time after.
  settings_.loss.inner_head.adapter_warm_up = 0;
  settings_.loss.last_head.adapter_warm_up = 0;
}

const StageSeconds& StageTimes::of(const PlannedStage& stage) {
  const Kind kind{stage.first(), stage.last(), settings_.trains(stage.stage)};
  const auto found = known_.find(kind);
  return found != known_.end() ? found->second : known_.emplace(kind, measure(kind)).first->second;
}

StageSeconds StageTimes::measure(const Kind& kind) const {
  constexpr std::int64_t layers_max = 5;
  const std::int64_t others = (kind.first ? 0 : 1) + (kind.last ? 0 : 1);
  const std::int64_t most = std::min(layers_max, model_->config().layers - others);
  StageSeconds seconds;
  seconds.one_layer = measure(kind, 1);
  // More layers take no less time, whatever was measured: the partitioner counts on it.
  seconds.two_layers = most >= 2 ? std::max(measure(kind, 2), seconds.one_layer) : 2 * seconds.one_layer;
  seconds.per_layer = most > 2 ? (measure(kind, most) - seconds.two_layers) / static_cast<double>(most - 2)
                               : seconds.two_layers - seconds.one_layer;
  seconds.per_layer = std::max(seconds.per_layer, 0.0);
  measure_ends(kind, seconds);
  return seconds;
}

/// The mean of all micro-batches.
double StageTimes::measure(const Kind& kind, std::int64_t layers) const {
  const ShortRun run = short_run(kind.first, kind.last, kind.trained, layers, settings_);
  const auto model = std::make_shared<const ShortModel>(model_, run.partition.back().last);
  MemoryAccount account;
  const auto backend = make_chunk_backend(model, run.stage, run.partition, run.settings, account);
  if (backend->needs_calibration()) {
    StageState state = backend->state();
    put_identities(state, run.partition[run.stage.value], model->config().width);
    backend->restore(state);
  }
  std::vector<Entry> entries = micro_batches_;
  for (Entry& entry : entries) {
    if (!embeds(kind)) entry.payload = random_hidden(entry.layout->rows(), model->config(), settings_);
  }
  const auto count = static_cast<double>(entries.size());
  WindowIndex window;
  return median_of([&] {
    const double begin = thread_cpu_seconds();
    for (const Entry& entry : entries) {
      backend->begin(entry);
      backend->finish(entry.position);
    }
    const double trained = thread_cpu_seconds();
    window = window.next();
    backend->step(window);
    return (trained - begin) / count + (thread_cpu_seconds() - trained) / static_cast<double>(accumulate_);
  });
}

/// What a stage does before and after its layers, alone.
void StageTimes::measure_ends(const Kind& kind, StageSeconds& seconds) const {
  const c10::InferenceMode guard;
  const auto count = static_cast<double>(micro_batches_.size());
  if (embeds(kind)) {
    const StoredTensor embedding = model_->tensor("model.embed_tokens.weight");
    seconds.embedding = seconds_of([&] {
                          for (const Entry& entry : micro_batches_) {
                            embed(embedding, entry.payload, scalar_type(settings_.compute));
                          }
                        }) /
                        count;
  }
  if (!kind.trained) return;
  const ShortRun run = short_run(kind.first, kind.last, true, 1, settings_);
  const ShortModel model(model_, run.partition.back().last);
  StageReadout readout(model, run.stage, run.partition, run.settings, base_conversion(settings_.base));
  StageState fitted;
  put_identities(fitted, run.partition[run.stage.value], model.config().width);
  readout.export_fitted(fitted.tensors);  // whatever else a head has, as it is
  readout.import_fitted(fitted.tensors);
  ExpansionScratch scratch(scalar_type(settings_.compute));
  scratch.reserve(model.config().width * model.config().feed_forward_width);
  std::vector<at::Tensor> hidden;
  for (const Entry& entry : micro_batches_) {
    const auto rows = static_cast<std::int64_t>(entry.layout->supervised_rows.size());
    hidden.push_back(random_hidden(rows, model.config(), settings_));
  }
  const double all = seconds_of([&] {
    for (std::size_t i = 0; i < micro_batches_.size(); ++i) {
      readout.loss(hidden[i], hidden[i], micro_batches_[i].layout->targets, scratch);
    }
  });
  seconds.readout = all / count;
}

}  // namespace zerolock
