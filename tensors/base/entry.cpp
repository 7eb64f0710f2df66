#include "tensors/base/entry.hpp"

#include "tensors/base/error.hpp"

namespace zerolock {

void MicroBatchLayout::check() const {
  ZEROLOCK_INVARIANT(!sequence_offsets.empty() && sequence_offsets.front() == 0, "offsets start at 0");
  for (std::size_t s = 1; s < sequence_offsets.size(); ++s) {
    ZEROLOCK_INVARIANT(sequence_offsets[s - 1] < sequence_offsets[s], "every sequence has at least one row");
  }
  ZEROLOCK_INVARIANT(supervised_rows.size() == targets.size(), "one target for each supervised row");
  for (std::size_t i = 0; i < supervised_rows.size(); ++i) {
    ZEROLOCK_INVARIANT(supervised_rows[i] >= 0 && supervised_rows[i] < rows(),
                       "supervised rows lie in the batch");
    ZEROLOCK_INVARIANT(i == 0 || supervised_rows[i - 1] < supervised_rows[i], "supervised rows ascend");
  }
}

}  // namespace zerolock
