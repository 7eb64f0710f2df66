#pragma once
/// The real stage backend: a chunk of decoder layers on the CPU with LoRA, its readout head and its
/// optimizer.

#include <memory>
#include <vector>

#include "tensors/base/indices.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Builds stage `stage` of the partition (contiguous ranges that cover all layers). The first stage embeds
/// token ids, unless the settings say that the source does. LoRA weights start from the seed and the layer's
/// name alone, so they do not depend on the partition. Where the gradient reaches beyond the stage, only the
/// last one has a head and a loss, which must be frozen and the task's alone, and all stages are trained
/// alike, without clipping. `account` must outlive the backend. Throws InputError if model, settings and
/// reach do not fit.
std::unique_ptr<StageBackend> make_chunk_backend(std::shared_ptr<const ModelFiles> model, StageIndex stage,
                                                 const std::vector<LayerRange>& partition,
                                                 const TrainingSettings& settings, MemoryAccount& account,
                                                 GradientReach reach = GradientReach::stage);

/// layers cut into `stages` chunks of floor(layers / stages), the rest going one each to the last chunks (22
/// in 3: 7, 7, 8). Throws InputError if there are more stages than layers or none.
std::vector<LayerRange> equal_partition(std::int64_t layers, std::int64_t stages);

}  // namespace zerolock
