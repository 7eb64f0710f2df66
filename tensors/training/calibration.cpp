#include "tensors/training/calibration.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

bool calibrate(const std::vector<StageBackend*>& stages, const std::vector<Entry>& entries) {
  const bool needed = std::any_of(stages.begin(), stages.end(),
                                  [](const StageBackend* stage) { return stage->needs_calibration(); });
  if (!needed) return false;
  for (Entry entry : entries) {
    for (StageBackend* stage : stages) entry.payload = stage->calibrate_begin(entry);
  }
  const at::Tensor targets = stages.back()->calibration_targets();
  if (!targets.defined()) throw RunError("calibration has no supervised rows to fit to");
  for (StageBackend* stage : stages) stage->calibrate_finish(targets);
  return true;
}

}  // namespace zerolock
