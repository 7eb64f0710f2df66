#pragma once
/// The calibration phase of stages that live in one process, one after another.

#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Sends the entries (of boundary 0) through all stages, first to last, then fits every stage to the last
/// one's rows. Does nothing and returns false if no stage needs calibration. Throws RunError if a fit has no
/// solution.
bool calibrate(const std::vector<StageBackend*>& stages, const std::vector<Entry>& entries);

}  // namespace zerolock
