#pragma once
/// What becomes of a run's executors, for those who watch.

#include <functional>
#include <string>
#include <vector>

#include "actors/core/membership_core.hpp"
#include "actors/core/reports.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// Called by the coordinator's actors, from several threads; those of one executor in order. Must not block.
/// Executors are named by their nodes.
struct ExecutorObserver {
  std::function<void(const ExecutorCard&)> joined = [](const ExecutorCard&) {};
  /// What it is to run; no stages: it stands by.
  std::function<void(const std::string& node, const std::vector<StageIndex>& stages)> assigned =
      [](const std::string&, const std::vector<StageIndex>&) {};
  /// It has stages and its connection broke: it is waited for.
  std::function<void(const std::string& node)> lost = [](const std::string&) {};
  /// It has connected again.
  std::function<void(const std::string& node)> back = [](const std::string&) {};
  /// It will not come again in this life.
  std::function<void(const std::string& node)> left = [](const std::string&) {};
  /// The coordinator has the stage's state of that window on disk.
  std::function<void(StageIndex, WindowIndex)> durable = [](StageIndex, WindowIndex) {};
  /// What stands in a stage's buffers has changed.
  std::function<void(const StageQueues&)> queues = [](const StageQueues&) {};
};

}  // namespace zerolock
