#include "apps/command/plan_report.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "apps/report/bench_table.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {

namespace {

using nlohmann::ordered_json;

std::string seconds_text(double seconds) {
  char text[48];
  const bool small = seconds < 0.1;
  std::snprintf(text, sizeof text, "%.3g %s", small ? seconds * 1e3 : seconds, small ? "ms" : "s");
  return text;
}

std::string layers_text(const LayerRange& layers) {
  const std::string first = std::to_string(layers.first);
  return layers.count() == 1 ? first : first + "-" + std::to_string(layers.last - 1);
}

std::string layers_flag(const std::vector<PlannedPlace>& stages) {
  std::string flag;
  for (const PlannedPlace& place : stages) {
    flag += (flag.empty() ? "" : ",") + std::to_string(place.layers.count());
  }
  return flag;
}

PartitionTask partition_task(const PlanInputs& inputs, const std::vector<PlanningExecutor>& executors,
                             const std::vector<LayerRange>& fixed, const PlanCosts& costs) {
  PartitionTask task;
  task.layers = inputs.sizes.config.layers;
  task.stages = inputs.stages;
  task.entry_bytes = inputs.entry_bytes(inputs.largest);
  if (inputs.buffers.source_embeds) task.source_bytes = task.entry_bytes;
  task.executors = executors;
  task.fixed = fixed;
  task.cost = [&inputs, &costs](StageIndex index, const LayerRange& layers) {
    const PlannedStage stage = inputs.stage(index.value, layers);
    return StageCost{costs.operations(stage), inputs.memory(stage).total};
  };
  return task;
}

/// The slowest stage without the executors' memory limits.
double unlimited_seconds(PartitionTask task) {
  for (PlanningExecutor& executor : task.executors) executor.memory_bytes = 0;
  return best_plan(task).slowest_seconds;
}

/// The slowest stage when layers are cut as train does by itself; nothing if that does not fit.
std::optional<double> evenly_cut_seconds(PartitionTask task) {
  task.fixed = equal_partition(task.layers, static_cast<std::int64_t>(task.stages));
  try {
    return best_plan(task).slowest_seconds;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// The stage or link that all others wait for.
std::string bound(const PartitionTask& task, const StagePlan& plan) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlannedPlace& place = plan.stages[k];
    const PlanningExecutor& executor = task.executors[place.executor];
    if (place.shared_seconds == plan.slowest_seconds) {
      std::string text = "stage " + std::to_string(k) + " is the slowest: layers " +
                         layers_text(place.layers) + " take " + seconds_text(place.seconds) +
                         " of a micro-batch";
      if (place.shared_seconds == place.seconds) return text;
      return text + ", " + seconds_text(place.shared_seconds) + " with its share of " + executor.name +
             ", which computes " + std::to_string(executor.stages_at_once) +
             (executor.stages_at_once == 1 ? " stage" : " stages") + " at once";
    }
    if (place.receive_seconds == plan.slowest_seconds) {
      const std::string sender = k == 0 ? "the source" : task.executors[plan.stages[k - 1].executor].name;
      return "the link into stage " + std::to_string(k) + " is the slowest: from " + sender + " to " +
             executor.name + ", " + bytes_text(task.entry_bytes) + " of a micro-batch take " +
             seconds_text(place.receive_seconds);
    }
  }
  ZEROLOCK_INVARIANT(false, "something is the slowest");
}

std::string why(const PartitionTask& task, const StagePlan& plan, std::optional<double> evenly) {
  std::string text = bound(task, plan);
  if (!task.fixed.empty()) return text + "; the layers were given";
  const double unlimited = unlimited_seconds(task);
  text += unlimited < plan.slowest_seconds ? "; without memory limits it would be " + seconds_text(unlimited)
                                           : "; no other cut is faster";
  if (!evenly) return text + "; cut evenly it does not fit";
  if (*evenly > plan.slowest_seconds) text += "; cut evenly it would be " + seconds_text(*evenly);
  return text;
}

ordered_json memory_json(const PlannedMemory& memory) {
  ordered_json json;
  for (std::size_t c = 0; c < memory_component_count; ++c) {
    const auto component = static_cast<MemoryComponent>(c);
    json[std::string(to_string(component))] = memory.of(component);
  }
  json["total"] = memory.total;
  return json;
}

ordered_json stage_json(const PlanInputs& inputs, const PartitionTask& task, const StagePlan& plan,
                        std::size_t k, const PlanCosts& costs) {
  const PlannedPlace& place = plan.stages[k];
  const PlannedStage stage = inputs.stage(k, place.layers);
  const StageOperations operations = inputs.operations(stage);
  ordered_json json = {
      {"stage", k},
      {"executor", task.executors[place.executor].name},
      {"layers", {place.layers.first, place.layers.last}},
      {"trained", inputs.settings.trains(stage.stage)},
      {"peak_bytes", memory_json(inputs.memory(stage))},
      {"operations",
       {{"forward", operations.forward}, {"backward", operations.backward}, {"readout", operations.readout}}},
      {"seconds", place.seconds},
      {"receive_seconds", place.receive_seconds},
      {"share", place.shared_seconds / plan.slowest_seconds}};
  if (costs.measured) {
    const StageSeconds& seconds = costs.seconds(stage);
    json["measured"] = {{"layer_seconds", seconds.per_layer},
                        {"readout_seconds", seconds.readout},
                        {"embedding_seconds", seconds.embedding}};
  }
  return json;
}

}  // namespace

ordered_json plan_report(const PlanInputs& inputs, const std::vector<PlanningExecutor>& executors,
                         const std::vector<LayerRange>& fixed, const PlanCosts& costs) {
  const PartitionTask task = partition_task(inputs, executors, fixed, costs);
  const StagePlan plan = best_plan(task);
  const std::optional<double> evenly = evenly_cut_seconds(task);
  ordered_json stages = ordered_json::array();
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    stages.push_back(stage_json(inputs, task, plan, k, costs));
  }
  const double period = plan.period_seconds;
  ordered_json report = {{"model", inputs.model->path().string()},
                         {"layers", layers_flag(plan.stages)},
                         {"stages", std::move(stages)},
                         {"slowest_seconds", plan.slowest_seconds},
                         {"period_seconds", period},
                         {"examples_per_second", static_cast<double>(inputs.mean.sequences) / period},
                         {"times", costs.measured ? "measured" : "operations"},
                         {"why", why(task, plan, evenly)}};
  report["evenly_cut_slowest_seconds"] = evenly ? ordered_json(*evenly) : ordered_json();
  report["entry_bytes"] = inputs.entry_bytes(inputs.largest);
  if (inputs.buffers.source_embeds) {
    report["source"] = {{"embedding_bytes", inputs.sizes.embedding.stored_bytes},
                        {"entry_bytes", inputs.entry_bytes(inputs.largest)}};
  }
  report["notes"] = inputs.notes;
  return report;
}

std::string plan_text(const ordered_json& report) {
  BenchResult table;
  for (const ordered_json& stage : report["stages"]) {
    const LayerRange layers{stage["layers"][0].get<std::int64_t>(), stage["layers"][1].get<std::int64_t>()};
    ordered_json row = {{"stage", stage["stage"]},
                        {"executor", stage["executor"]},
                        {"layers", layers_text(layers) + (stage["trained"].get<bool>() ? "" : ", frozen")}};
    for (const auto& [component, bytes] : stage["peak_bytes"].items()) {
      row[component] = bytes_text(bytes.get<std::int64_t>());
    }
    row["time"] = seconds_text(stage["seconds"].get<double>());
    char share[16];
    std::snprintf(share, sizeof share, "%.0f %%", 100 * stage["share"].get<double>());
    row["share"] = share;
    table.rows.push_back(std::move(row));
  }
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.3g", report["examples_per_second"].get<double>());
  std::string text = table.to_table();
  text += "why: " + report["why"].get<std::string>() + "\n";
  text += "pace: a micro-batch in " + seconds_text(report["period_seconds"].get<double>()) + ", " + rate +
          " examples/s, ";
  text +=
      report["times"] == "measured"
          ? "by stages timed on this machine\n"
          : "by matrix products alone at the executors' rates: at most so fast (--measure times stages)\n";
  if (report.contains("source")) {
    const ordered_json& source = report["source"];
    text += "source: embeds the rows with " + bytes_text(source["embedding_bytes"].get<std::int64_t>()) +
            " of weights, and sends " + bytes_text(source["entry_bytes"].get<std::int64_t>()) +
            " of a micro-batch to stage 0\n";
  }
  return text + "train it so: --layers " + report["layers"].get<std::string>() + "\n";
}

}  // namespace zerolock
