#pragma once
/// The order in which a data set is trained: seeded, identical in every process and on every run.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/micro_batch_provider.hpp"

namespace zerolock {

struct BatchPlanOptions {
  std::uint64_t batch = 8;       // sequences of a micro-batch (b)
  std::uint64_t accumulate = 4;  // micro-batches of a window (m)
  std::uint64_t epochs = 1;
  std::uint64_t windows = 0;  // windows in all (goes round the data as often as needed); 0: as epochs say
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: every epoch in the order of the file
  /// The first so many examples of the first epoch's order, all of them if there are fewer, are also window
  /// 0: stages are calibrated with them before they train. Packed b at a time, the last micro-batch with what
  /// is left.
  std::uint64_t calibration_rows = 0;
};

/// Each epoch is its own seeded permutation (Fisher-Yates over a counter-based generator of seed and epoch).
/// An epoch that does not fill its last window leaves that window smaller: fewer micro-batches, the last of
/// them with fewer sequences. Throws InputError if the data set is empty or a number is out of range.
std::shared_ptr<const MicroBatchProvider> make_batch_plan(std::shared_ptr<const Dataset> dataset,
                                                          const BatchPlanOptions& options);

/// The order of `count` examples in an epoch (counted from 0): each index 0..count-1 once. The same for the
/// same arguments in every process, on every machine, with every compiler.
std::vector<std::uint64_t> epoch_order(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

/// Sequences laid one after another, without padding.
struct PackedExamples {
  std::shared_ptr<const MicroBatchLayout> layout;
  at::Tensor token_ids;  // int64 [rows]
};

/// Packs examples in the given order. Omega holds the rows whose next token in the same sequence is
/// supervised; it may be empty. Every example must have at least one token.
PackedExamples pack_examples(std::span<const Example* const> examples);

}  // namespace zerolock
