#pragma once
/// A model with its adapter put into the weights, as the weights of a Hugging Face folder.

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tensors/files/adapter_files.hpp"
#include "tensors/files/model_files.hpp"

namespace zerolock {

/// The type in which a tensor of the model is exported: `wanted`, or its own; float32 for block-quantised
/// ones, which no plain type but that holds exactly.
at::ScalarType exported_type(const StoredTensor& tensor, std::optional<at::ScalarType> wanted);

/// Bytes of the tensors that write_merged_weights writes.
std::uint64_t merged_weights_bytes(const ModelFiles& model, std::optional<at::ScalarType> wanted);

/// Writes a safetensors file with every tensor that the model needs, those that the adapter changes as
/// W + scale * B A, added in float32 and then rounded to the exported type. One tensor at a time is in
/// memory. The adapter must have been read for this model. Throws RunError if the file cannot be written.
void write_merged_weights(const std::filesystem::path& file, const ModelFiles& model, const Adapter& adapter,
                          std::optional<at::ScalarType> wanted);

}  // namespace zerolock
