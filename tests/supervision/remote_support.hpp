#pragma once
/// A coordinator and its executors as they talk over loopback, each with its own actors, in one test process.

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "supervision/executor_run.hpp"
#include "supervision/remote_cluster.hpp"
#include "tests/supervision/cluster_support.hpp"

namespace zerolock::test {

struct RemoteCase {
  std::uint64_t stages = 3;
  std::uint64_t windows = 4;
  std::uint64_t micro_batches = 3;
  std::uint64_t executors = 3;
  bool calibrate = false;
  BackendFactory make_backend = simulated;
  FaultHook fault;
  std::int64_t width = simulated_width;  // of the hidden states that make_backend's backends make
  std::uint64_t depth = 4;
  std::size_t buffer_bytes_max = std::size_t{1} << 30U;
  LinkProfile link;      // of everything that crosses boundaries
  PlannedPlaces places;  // of the stages; empty: over the executors in order
  std::chrono::milliseconds vacancy_limit = deadlines.stage_vacancy;
};

struct RemoteResult {
  ClusterOutcome outcome;
  std::vector<ExecutorEnd> ends;
  std::vector<std::string> restarts;
  std::uint16_t coordinator_port = 0;
};

/// Runs in `folder`, to the end.
RemoteResult run_remotely(const RemoteCase& given, const TemporaryFolder& folder);

/// The run has finished with the states of stages that were trained in sequence.
void check_same(const RemoteCase& given, const RemoteResult& result);

}  // namespace zerolock::test
