#pragma once
/// How many multiplications and additions the matrix products of a stage take: what the backend does, counted
/// without doing it. Products are nine tenths of a stage's time; what is between them is not counted.

#include "tensors/planning/model_sizes.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// Of a readout over so many outputs, for one supervised row, forward and backward: what
/// ReadoutHead::operations_per_row says of the head that these settings make.
double head_operations_per_row(const HeadSettings& head, const ModelConfig& config);

/// Of one micro-batch in a stage, its share of the optimizer's step excluded. A stage that is not trained
/// only forwards, and so does a micro-batch without supervised rows. Throws InputError for settings that do
/// not fit each other.
struct StageOperations {
  double forward = 0;
  double backward = 0;  // and what is computed again for it
  double readout = 0;   // the loss, forward and backward

  [[nodiscard]] double total() const { return forward + backward + readout; }
};
StageOperations stage_operations(const ModelSizes& model, const TrainingSettings& settings,
                                 const PlannedStage& stage, const MicroBatchShape& shape);

}  // namespace zerolock
