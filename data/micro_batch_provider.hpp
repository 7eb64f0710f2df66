#pragma once
/// Where boundary 0's entries come from: made again at any time from the position alone, so nothing has to be
/// kept.

#include <cstdint>

#include "tensors/base/entry.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// Thread-safe; the same position gives the same bits on every call and in every process.
class MicroBatchProvider {
 public:
  virtual ~MicroBatchProvider() = default;

  /// Training windows 1..last_window().
  [[nodiscard]] virtual WindowIndex last_window() const = 0;
  /// Micro-batches of a window: m, fewer in the last one. Of window 0, the rows that the stages are
  /// calibrated with: as many as these fill, 0 if there are none.
  [[nodiscard]] virtual std::uint64_t micro_batches(WindowIndex window) const = 0;
  /// One micro-batch, packed: token ids, or their embedding; producer 0.
  [[nodiscard]] virtual Entry make(const BatchPosition& position) const = 0;
};

}  // namespace zerolock
