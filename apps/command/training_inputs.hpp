#pragma once
/// Everything a training run reads, opened and checked against the options before anything is written.

#include <memory>
#include <string>
#include <vector>

#include "apps/command/opened_model.hpp"
#include "apps/command/train_options.hpp"
#include "data/dataset.hpp"
#include "data/micro_batch_provider.hpp"
#include "supervision/local_cluster.hpp"

namespace zerolock {

struct TrainingInputs {
  OpenedModel model;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const MicroBatchProvider> batches;
  std::vector<LayerRange> partition;
  std::vector<TrainingSettings> stage_settings;  // one for each stage
  std::uint64_t state_bytes = 0;                 // of all stages' initial states: what a checkpoint takes

  /// Makes stage backends, each with one compute thread. Shares ownership of the model.
  [[nodiscard]] BackendFactory backend_factory() const;
};

/// Throws InputError for the first thing that does not fit. Builds each stage once to be sure that it can be
/// built.
TrainingInputs open_training_inputs(const TrainOptions& options);

/// Lines to log about rows that were left out or cut, and about windows that are smaller than the rest.
std::vector<std::string> dataset_warnings(const Dataset& dataset);
std::vector<std::string> window_notes(const TrainingInputs& inputs, const TrainOptions& options);

}  // namespace zerolock
