#pragma once
/// Training data for stages that compute nothing.

#include <cstdint>
#include <memory>

#include "data/micro_batch_provider.hpp"

namespace zerolock {

/// The same small micro-batch at every position: so many sequences of `rows_each` rows (at least 2), one row
/// of each supervised.
std::shared_ptr<const MicroBatchProvider> make_constant_batches(std::uint64_t windows,
                                                                std::uint64_t micro_batches,
                                                                std::uint64_t sequences,
                                                                std::int64_t rows_each = 4);

}  // namespace zerolock
