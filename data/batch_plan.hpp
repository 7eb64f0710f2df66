#pragma once
/// The order in which a data set is trained: seeded, identical in every process and on every run.

#include <cstdint>
#include <memory>

#include "data/dataset.hpp"
#include "data/micro_batch_provider.hpp"

namespace zerolock {

struct BatchPlanOptions {
  std::uint64_t batch = 8;       // sequences of a micro-batch (b)
  std::uint64_t accumulate = 4;  // micro-batches of a window (m)
  std::uint64_t epochs = 1;
  std::uint64_t windows = 0;  // windows in all (goes round the data as often as needed); 0: as epochs say
  std::uint64_t seed = 0;
  bool shuffle = true;
};

/// Each epoch is its own seeded permutation (Fisher-Yates over a counter-based generator of seed and epoch).
/// An epoch that does not fill its last window leaves that window smaller. Throws InputError if the data set
/// is empty.
std::shared_ptr<const MicroBatchProvider> make_batch_plan(std::shared_ptr<const Dataset> dataset,
                                                          const BatchPlanOptions& options);

}  // namespace zerolock
