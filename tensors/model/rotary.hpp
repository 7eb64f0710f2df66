#pragma once
/// Rotary position embedding (Su et al. 2021) in the half-split layout of Llama and Qwen2.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "tensors/files/model_config.hpp"

namespace zerolock {

/// Angular frequencies [head_dimension / 2]: theta^(-2i/d), stretched as in transformers'
/// _compute_llama3_parameters where the model asks for it.
std::vector<double> rotary_frequencies(const ModelConfig& config);

/// Cosines and sines of all positions used so far, computed in fp64 and kept in the given type. Not
/// thread-safe.
class RotaryTable {
 public:
  RotaryTable(const ModelConfig& config, at::ScalarType type);

  /// Makes sure that positions 0..count-1 are there.
  void grow(std::int64_t count);
  /// [positions, head_dimension / 2] of the positions first..first+count-1, which must be there.
  [[nodiscard]] at::Tensor cosine(std::int64_t first, std::int64_t count) const;
  [[nodiscard]] at::Tensor sine(std::int64_t first, std::int64_t count) const;

 private:
  std::vector<double> frequencies_;
  at::ScalarType type_;
  at::Tensor cosine_;
  at::Tensor sine_;
};

enum class Rotation { forward, backward };

/// Rotates x [rows, heads * head_dimension] in place. Sequence s takes rows offsets[s]..offsets[s+1]-1 and
/// starts at `first_position`. The rotation is orthogonal, so its backward is the opposite rotation.
void rotate(at::Tensor& x, RotaryTable& table, const std::vector<std::int64_t>& sequence_offsets,
            std::int64_t first_position, std::int64_t head_dimension, Rotation rotation);

}  // namespace zerolock
