#include "actors/core/micro_batch_counts.hpp"

#include "tensors/base/error.hpp"

namespace zerolock {

MicroBatchCounts::MicroBatchCounts(const MicroBatchCount& counts, WindowIndex last) {
  for (WindowIndex window{0}; window <= last; window = window.next()) {
    const std::uint64_t count = counts(window);
    if (stretches_.empty() || stretches_.back().second != count) stretches_.emplace_back(0, count);
    ++stretches_.back().first;
  }
}

std::uint64_t MicroBatchCounts::operator()(WindowIndex window) const {
  ZEROLOCK_INVARIANT(!stretches_.empty(), "a run has windows");
  std::uint64_t before = 0;
  for (const auto& [windows, count] : stretches_) {
    before += windows;
    if (window.value < before) return count;
  }
  return stretches_.back().second;
}

}  // namespace zerolock
