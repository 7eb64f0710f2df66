#pragma once
/// The devices that a plan is made for: read from a file, or this machine.

#include <filesystem>
#include <vector>

#include "tensors/planning/partitioner.hpp"

namespace zerolock {

/// A TOML file with one [[executor]] for each device:
///
///     [[executor]]
///     name = "laptop"        # required, no two alike
///     memory = "4GiB"        # for all its stages together; none: no limit
///     cores = 2              # of which each stage takes one, or as many as `threads` says (1)
///     threads = 1            # of each stage, as its executor's --threads (1)
///     gflops = 80            # fp32 products of one core; for all executors or for none
///     link = "1Gbit/s"       # none: its network does not count
///
/// Where none has gflops, all are as fast as a core of this machine, which does `operations_per_second`.
/// Throws InputError with file and line.
std::vector<PlanningExecutor> read_executors(const std::filesystem::path& file, double operations_per_second);

/// This machine, all of its cores and memory.
PlanningExecutor this_machine(double operations_per_second);

}  // namespace zerolock
