#pragma once
/// Which layers each stage takes and which executor hosts it: the exact optimum of a small search. Knows
/// nothing of models, actors or clocks: costs come in as numbers.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// What one stage asks of whoever hosts it.
struct StageCost {
  double operations = 0;          // of one micro-batch
  std::int64_t memory_bytes = 0;  // at its peak
};

/// A device that can host stages, as it describes itself.
struct PlanningExecutor {
  std::string name;
  std::uint64_t stages_at_once = 1;  // that it computes, each at the full rate
  double operations_per_second = 1;  // of one stage alone, by all its threads
  std::int64_t memory_bytes = 0;     // that all its stages together may use; 0: no limit
  double link_bytes_per_second = 0;  // each way; 0: does not count
};

struct PartitionTask {
  std::int64_t layers = 0;
  std::uint64_t stages = 1;
  /// Asked at most once for each stage and range. A longer range that begins alike must not cost less.
  std::function<StageCost(StageIndex, const LayerRange&)> cost;
  std::int64_t entry_bytes = 0;   // a micro-batch's hidden state on its way from one stage to the next
  std::int64_t source_bytes = 0;  // of what the batch source sends to the first stage; 0: does not count
  std::vector<PlanningExecutor> executors;
  std::vector<LayerRange> fixed;  // the stages' layers, if they are not to be chosen: only the executors are
};

/// Where one stage stands.
struct PlannedPlace {
  LayerRange layers;
  std::size_t executor = 0;    // its place in the task's list
  double seconds = 0;          // of one micro-batch, alone on its executor
  double shared_seconds = 0;   // the same with an equal share, where stages are more than it computes at once
  double receive_seconds = 0;  // of its input across the slower of both ends' links; 0 within one executor
  std::int64_t memory_bytes = 0;
};

/// The best partition and who hosts it. Stages that follow each other may share an executor; an executor
/// never has stages apart from each other, so that a micro-batch comes to it once.
struct StagePlan {
  std::vector<PlannedPlace> stages;
  /// The longest of all shared_seconds and receive_seconds: what was minimised.
  double slowest_seconds = 0;
  /// From one micro-batch to the next when all stages are busy: the longest of every stage's seconds, every
  /// receive, and every executor's sum of seconds divided by its stages_at_once. A core that waits for one
  /// stage works for another, so this is at most slowest_seconds.
  double period_seconds = 0;
};

/// Minimises the slowest stage, and among all that have it so, the sum of the squares of all stages' seconds.
/// The same task always has the same answer. Throws InputError if no partition fits the executors' memory,
/// naming the stages, the executor and the bytes that it lacks in the partition that lacks least; if there
/// are more stages than layers or no executors; and if the executors are too many and too different for an
/// exact search.
StagePlan best_plan(const PartitionTask& task);

/// "1.5 GiB", "230 MiB", "512 KiB", "17 bytes".
std::string bytes_text(std::int64_t bytes);

}  // namespace zerolock
