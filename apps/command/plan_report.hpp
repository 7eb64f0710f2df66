#pragma once
/// A plan for people and for scripts: who takes which layers, what that costs, and why it is so.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command/plan_inputs.hpp"
#include "tensors/planning/partitioner.hpp"
#include "tensors/planning/stage_times.hpp"

namespace zerolock {

/// What stages cost in time.
struct PlanCosts {
  /// Of a micro-batch, in products of an executor's rate: counted, or measured seconds times this machine's
  /// rate.
  std::function<double(const PlannedStage&)> operations;
  bool measured = false;
  /// What was measured of a stage's kind; null if nothing was.
  std::function<const StageSeconds&(const PlannedStage&)> seconds;
};

/// Plans the run and describes the plan: "stages" (an object each), "slowest_seconds", "period_seconds",
/// "examples_per_second", "why", "evenly_cut_slowest_seconds" and "layers" as a flag for train. `fixed`: the
/// stages' layers, if they are given. Throws InputError if no partition fits.
nlohmann::ordered_json plan_report(const PlanInputs& inputs, const std::vector<PlanningExecutor>& executors,
                                   const std::vector<LayerRange>& fixed, const PlanCosts& costs);

/// The report as a table and a few lines.
std::string plan_text(const nlohmann::ordered_json& report);

}  // namespace zerolock
