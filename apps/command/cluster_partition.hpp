#pragma once
/// The partition of a run over the executors that have joined it, from what they say about themselves.

#include <cstdint>
#include <string>
#include <vector>

#include "actors/core/membership_core.hpp"
#include "apps/command/plan_inputs.hpp"
#include "supervision/stage_places.hpp"

namespace zerolock {

struct ClusterPartition {
  std::vector<std::uint64_t> layers;  // of each stage
  PlannedPlaces places;               // of all stages, each executor once
  std::string text;                   // the table of `zerolock plan`, and why it is so
};

/// Minimises the slowest stage as best_plan does, with products counted, as the executors' rates allow. Rates
/// count with two digits: measured ones differ between machines that are alike. Executors that have measured
/// none are taken to be as fast as a core of this machine, `operations_per_second`. Throws InputError if the
/// stages do not fit the executors' memory limits.
ClusterPartition partition_for(const PlanInputs& inputs, const std::vector<ExecutorCard>& executors,
                               double operations_per_second);

}  // namespace zerolock
