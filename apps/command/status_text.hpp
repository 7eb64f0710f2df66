#pragma once
/// A run's status as people read it.

#include <string>

#include "actors/core/placement_core.hpp"
#include "supervision/run_status.hpp"

namespace zerolock {

/// "training: window 3 of 40 | 41.2 examples/s | loss 1.203 0.984 | 2 executors running | 0:42"
std::string status_line(const RunStatus& status);
/// That line, a table of the stages and one of the executors; each line ends in a newline.
std::string status_table(const RunStatus& status);

}  // namespace zerolock
