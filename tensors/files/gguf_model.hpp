#pragma once
/// A decoder in a GGUF file, seen with Hugging Face's eyes.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensors/files/gguf.hpp"
#include "tensors/files/model_config.hpp"
#include "tensors/files/stored_tensor.hpp"

namespace zerolock {

/// The shape of the decoder in a GGUF file. Throws InputError for architectures other than llama and qwen2,
/// for rope scaling other than Llama 3's (which GGUF keeps as the tensor rope_freqs.weight), and for missing
/// or unusable keys.
ModelConfig read_model_config(const GgufFile& file);

/// The file's tensors under Hugging Face's names, with the q and k rows of llama files in Hugging Face's
/// order. Tensors without a counterpart keep their names, except rope_freqs.weight, which the config has
/// taken in.
std::map<std::string, StoredTensor> hugging_face_tensors(const GgufFile& file, const ModelConfig& config);

/// Hugging Face's name of a llama or qwen2 tensor ("model.layers.0.self_attn.q_proj.weight" for
/// "blk.0.attn_q.weight"); nothing for tensors that have no counterpart.
std::optional<std::string> hugging_face_name(const std::string& gguf_name);

/// Row i of Hugging Face's q or k projection is row order[i] of GGUF's, where llama's rotary pairs lie
/// interleaved: in each head of h rows, order[j * h/2 + i] = 2 * i + j for j in 0..1, i in 0..h/2-1.
std::vector<std::int64_t> interleaved_rotary_row_order(std::int64_t heads, std::int64_t head_dimension);

}  // namespace zerolock
