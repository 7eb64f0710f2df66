#include "apps/command/cluster_partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/command/plan_report.hpp"
#include "tensors/planning/partitioner.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t cores_max = 4096;  // as of an [[executor]] of zerolock plan
constexpr double gigaflops_max = 1e9;

double with_two_digits(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

/// What an executor says comes over the network: all of it is brought into bounds.
PlanningExecutor planning_executor(const ExecutorCard& card, double operations_per_second) {
  PlanningExecutor executor;
  executor.name = card.name;
  const std::uint64_t cores = std::clamp<std::uint64_t>(card.cores, 1, cores_max);
  const std::uint64_t threads = std::clamp<std::uint64_t>(card.threads, 1, cores);
  const bool measured = card.gigaflops > 0 && card.gigaflops <= gigaflops_max;
  const double rate = measured ? card.gigaflops * 1e9 / static_cast<double>(cores) : operations_per_second;
  executor.stages_at_once = cores / threads;
  executor.operations_per_second = with_two_digits(rate * static_cast<double>(threads));
  constexpr auto bytes_max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  executor.memory_bytes = static_cast<std::int64_t>(std::min(card.memory_bytes, bytes_max));
  executor.link_bytes_per_second = static_cast<double>(card.link_bytes_per_second);
  return executor;
}

}  // namespace

ClusterPartition partition_for(const PlanInputs& inputs, const std::vector<ExecutorCard>& executors,
                               double operations_per_second) {
  std::vector<PlanningExecutor> devices;
  for (const ExecutorCard& card : executors) {
    devices.push_back(planning_executor(card, operations_per_second));
  }
  const PlanCosts counted{
      [&inputs](const PlannedStage& stage) { return inputs.operations(stage).total(); }, false, {}};
  const nlohmann::ordered_json report = plan_report(inputs, devices, {}, counted);
  ClusterPartition partition;
  for (const nlohmann::ordered_json& stage : report["stages"]) {
    const auto first = stage["layers"][0].get<std::uint64_t>();
    partition.layers.push_back(stage["layers"][1].get<std::uint64_t>() - first);
    const auto name = stage["executor"].get<std::string>();
    // Stages of one executor follow each other.
    if (partition.places.empty() || partition.places.back().first != name) {
      partition.places.push_back({name, {}});
    }
    partition.places.back().second.push_back(StageIndex{stage["stage"].get<std::uint64_t>()});
  }
  partition.text = plan_text(report);
  return partition;
}

}  // namespace zerolock
