#pragma once
/// Weights that nobody trained, for measuring with the true shapes of a model whose weights are not at hand.

#include <cstdint>
#include <filesystem>

#include "tensors/files/model_config.hpp"

namespace zerolock {

/// Counts what decides the bytes that write_random_weights writes: raised when they change.
inline constexpr int random_weights_format = 1;

/// Writes a safetensors file with every tensor of a decoder of this shape, bfloat16: norms are 1, all else
/// is normally distributed with the given standard deviation. Values are the 65,536 quantiles of that
/// distribution, drawn evenly; each tensor's draws come from the seed and its name alone, so that the same
/// arguments give the same bytes. One tensor at a time is in memory. Throws RunError if the file cannot be
/// written.
void write_random_weights(const std::filesystem::path& file, const ModelConfig& config,
                          double standard_deviation, std::uint64_t seed);

/// Bytes of that file's tensors.
std::uint64_t random_weights_bytes(const ModelConfig& config);

}  // namespace zerolock
