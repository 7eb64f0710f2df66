#pragma once
/// Boundary 0's entries as hidden states, so that token ids need not leave the process that has the rows.

#include <c10/core/ScalarType.h>

#include <memory>

#include "data/micro_batch_provider.hpp"
#include "tensors/files/model_files.hpp"

namespace zerolock {

/// What `batches` makes, its token ids replaced by their rows of the model's embedding: [rows, width] in the
/// compute type, bit for bit what a first stage that embeds would begin with. Layout and targets stay as they
/// are.
std::shared_ptr<const MicroBatchProvider> make_embedded_batches(
    std::shared_ptr<const MicroBatchProvider> batches, const std::shared_ptr<const ModelFiles>& model,
    at::ScalarType compute_type);

}  // namespace zerolock
