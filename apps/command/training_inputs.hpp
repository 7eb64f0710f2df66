#pragma once
/// Everything a training run reads, opened and checked against the options before anything is written.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command/opened_model.hpp"
#include "apps/command/recipe.hpp"
#include "apps/command/train_options.hpp"
#include "data/dataset.hpp"
#include "data/micro_batch_provider.hpp"
#include "supervision/local_cluster.hpp"

namespace zerolock {

/// Model and rows, before it is known how they are trained.
struct TrainingSources {
  OpenedModel model;
  std::shared_ptr<const Dataset> dataset;
  std::optional<PromptTemplate> prompt;
  std::shared_ptr<const Dataset> evaluation;  // rows of --eval-data, with the classes of the others; or null
};

/// Throws InputError for the first thing that does not fit, the number of stages included.
TrainingSources open_training_sources(const TrainOptions& options);

/// The ids that restricted readouts are over; empty if no stage has one. Throws InputError if the rows have
/// no classes, or their answers are not single tokens.
std::vector<std::int64_t> restricted_tokens(const TrainOptions& options, const TrainingSources& sources);

/// Throws InputError if rows may be longer than the model's context.
void check_sequence_length(const TrainOptions& options, const ModelConfig& config);

/// Lets the recipe of the options set what `by_hand` does not name. Nothing for the recipe none.
std::optional<RecipeReport> resolve_recipe(TrainOptions& options, const TrainingSources& sources,
                                           const std::function<bool(const std::string& flag)>& by_hand);

struct TrainingInputs {
  OpenedModel model;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const MicroBatchProvider> batches;
  std::vector<LayerRange> partition;
  std::shared_ptr<const Dataset> evaluation;        // null: none
  std::vector<std::vector<TokenId>> label_answers;  // of the classes, for evaluation
  TrainingSettings settings;                        // of all stages
  GradientReach reach = GradientReach::stage;       // of the schedule
  bool needs_calibration = false;                   // some stage's readout is fitted before window 1
  std::uint64_t state_bytes = 0;                    // of all stages' initial states: what a checkpoint takes

  /// Makes stage backends, each with one compute thread. Shares ownership of the model.
  [[nodiscard]] BackendFactory backend_factory() const;
};

/// Throws InputError for the first thing that does not fit. Builds each stage once to be sure that it can be
/// built.
TrainingInputs open_training_inputs(const TrainOptions& options, const TrainingSources& sources);

/// Lines to log about rows that were left out or cut, and about windows that are smaller than the rest.
std::vector<std::string> dataset_warnings(const Dataset& dataset);
std::vector<std::string> window_notes(const TrainingInputs& inputs, const TrainOptions& options);

}  // namespace zerolock
