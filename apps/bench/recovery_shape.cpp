#include "apps/bench/recovery_shape.hpp"

#include <chrono>

#include "apps/bench/filled_rows.hpp"

namespace zerolock {

std::shared_ptr<const MicroBatchProvider> RecoveryShape::batches() const {
  return make_filled_rows({vocabulary, rows, 1, micro_batches, last().value, 0});
}

ClusterPlan RecoveryShape::plan() const {
  ClusterPlan plan;
  plan.run_id = "bench-recovery";
  plan.stages = stages;
  plan.last_window = last();
  // A process that is killed at the start of a window may not have said yet that it committed the one before.
  plan.ahead_windows = windows_away + 1;
  // Credit is announced anew when half of it is used, so half must be enough for all that.
  plan.depth = 2 * micro_batches * (plan.ahead_windows + 1);
  // Nothing here may be given up for being slow: its longest wait is what is measured.
  plan.hang_after = std::chrono::hours(1);
  return plan;
}

}  // namespace zerolock
