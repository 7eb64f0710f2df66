#pragma once
/// How many micro-batches each window of a run has, short enough to be told.

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/core/window_order.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// The counts of windows 0..last, as stretches of equal ones. The counts of windows after the last are those
/// of the last.
class MicroBatchCounts {
 public:
  /// Windows, and the micro-batches of each of them; 0 only for window 0 of a run that is not calibrated.
  using Stretch = std::pair<std::uint64_t, std::uint64_t>;

  MicroBatchCounts() = default;
  MicroBatchCounts(const MicroBatchCount& counts, WindowIndex last);
  explicit MicroBatchCounts(std::vector<Stretch> stretches) : stretches_(std::move(stretches)) {}

  [[nodiscard]] std::uint64_t operator()(WindowIndex window) const;
  [[nodiscard]] const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  std::vector<Stretch> stretches_;
};

}  // namespace zerolock
