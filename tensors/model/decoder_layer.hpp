#pragma once
/// One decoder layer of Llama or Qwen2, forward and backward:
///   h = x + O attention(rotate(Q n), rotate(K n), V n),   n = RmsNorm(x)
///   y = h + D swiglu(G n', U n'),                          n' = RmsNorm(h)

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensors/base/memory_account.hpp"
#include "tensors/model/attention.hpp"
#include "tensors/model/key_value_cache.hpp"
#include "tensors/model/linear.hpp"
#include "tensors/model/rms_norm.hpp"
#include "tensors/model/rotary.hpp"

namespace zerolock {

/// The seven linear layers, in the order in which they run.
enum class Projection : std::uint8_t { query, key, value, output, gate, up, down };
inline constexpr std::size_t projection_count = 7;
/// PEFT's name of a target: "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj".
std::string_view target_name(Projection projection);
/// Its place within a layer: "self_attn.q_proj", …, "mlp.down_proj".
std::string_view module_path(Projection projection);

/// Weights of one layer.
struct DecoderLayer {
  AttentionShape attention;
  RmsNorm attention_norm;
  RmsNorm feed_forward_norm;
  std::array<AdaptedLinear, projection_count> projections;

  AdaptedLinear& operator[](Projection p) { return projections[static_cast<std::size_t>(p)]; }
  const AdaptedLinear& operator[](Projection p) const { return projections[static_cast<std::size_t>(p)]; }
};

/// What all layers of a stage share while they work on one packed micro-batch, or several.
struct LayerContext {
  const std::vector<std::int64_t>& sequence_offsets;
  RotaryTable& rotary;
  ExpansionScratch& scratch;
  MemoryComponent output_component = MemoryComponent::activations;  // what the layer's output is charged to
  RowParts parts;                                                   // of the rows, in backward
  RowParts some_parts;  // of the rows whose gradient layer_backward_from_rows is given
};

/// What backward needs of a forward. Norm outputs and the feed-forward product are made again from it.
struct LayerTape {
  at::Tensor input;                  // x [rows, width]
  at::Tensor attention_inverse_rms;  // [rows]
  at::Tensor query;                  // rotated [rows, heads * d]
  at::Tensor key;                    // rotated [rows, key-value heads * d]
  at::Tensor value;                  // [rows, key-value heads * d]
  AttentionResult attention;
  at::Tensor middle;                                   // h [rows, width]
  at::Tensor feed_forward_inverse_rms;                 // [rows]
  at::Tensor gate;                                     // [rows, feed-forward width]
  at::Tensor up;                                       // [rows, feed-forward width]
  std::array<at::Tensor, projection_count> projected;  // x A^T of adapted layers [rows, rank]
};

/// x [rows, width] -> y [rows, width], a new tensor. Fills the tape unless it is null.
at::Tensor layer_forward(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context,
                         LayerTape* tape);

/// Fills the tape of a layer whose output is known already: layer_forward without its last product.
void layer_record(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context,
                  LayerTape& tape);

/// Forward of the next rows of one sequence, whose earlier keys and values are in the cache; appends the new
/// ones.
at::Tensor layer_decode(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context,
                        LayerCache& cache);

/// Adds the LoRA gradients to their sums and returns the gradient of x; an undefined tensor, and less work,
/// if nobody needs it. Uses up the tape and overwrites dy [rows, width].
at::Tensor layer_backward(DecoderLayer& layer, at::Tensor dy, LayerTape tape, const LayerContext& context,
                          bool need_input_gradient);

/// The same where the gradient of y is zero but for some rows (int64 [n], ascending): dy is [n, width]. What
/// works row by row, the feed-forward half and the attention's output projection, is done for these rows
/// alone.
at::Tensor layer_backward_from_rows(DecoderLayer& layer, at::Tensor dy, const at::Tensor& rows,
                                    LayerTape tape, const LayerContext& context, bool need_input_gradient);

}  // namespace zerolock
