#pragma once
/// Training data without a file: rows that are all as long as they may be.

#include <cstdint>
#include <memory>
#include <string>

#include "apps/command/train_options.hpp"
#include "data/micro_batch_provider.hpp"

namespace zerolock {

struct FilledRowsSetup {
  std::int64_t vocabulary = 1;
  std::int64_t row_tokens = 2;  // at least 2
  std::uint64_t batch = 1;
  std::uint64_t micro_batches = 1;  // of each window
  std::uint64_t windows = 1;
  std::uint64_t seed = 0;
};

/// Seeded token ids; the last token of each row is its answer, as in classification.
std::shared_ptr<const MicroBatchProvider> make_filled_rows(const FilledRowsSetup& setup);

/// Filled rows have no text to fit a calibrated readout to, and no labels for a restricted one. Throws
/// InputError, which says that `measurement` has none.
void refuse_heads_of_rows(const TrainOptions& options, const std::string& measurement);

}  // namespace zerolock
