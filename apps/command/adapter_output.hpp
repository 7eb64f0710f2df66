#pragma once
/// The result of training as a PEFT adapter folder.

#include <filesystem>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Writes the LoRA matrices of all stages to `folder` (adapter_config.json, adapter_model.safetensors):
/// beside it first, then renamed, so that a reader never sees half an adapter. Returns the SHA-256 of the
/// weights' file. Throws RunError.
std::string write_adapter_folder(const std::filesystem::path& folder, const std::vector<StageState>& states,
                                 const LoraSettings& lora, const ModelFiles& model);

}  // namespace zerolock
