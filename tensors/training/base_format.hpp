#pragma once
/// How a stage holds its frozen weights.

#include <optional>

#include "tensors/files/model_files.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// The format that frozen weights are converted to when a stage opens; none: they stay as they are stored.
std::optional<StorageFormat> base_format(BaseFormat base);
/// The conversion itself; empty if there is none.
WeightTransform base_conversion(BaseFormat base);

}  // namespace zerolock
