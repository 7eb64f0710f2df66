#pragma once
/// What a decoder looks like: read from a Hugging Face config.json (classic and transformers-5 spelling) or
/// from GGUF metadata.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zerolock {

enum class ModelFamily { llama, qwen2 };

/// Llama 3's frequency-dependent stretch of the rotary embedding, as in transformers'
/// _compute_llama3_parameters.
struct Llama3RopeScaling {
  double factor = 8.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_context_length = 8192;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::llama;
  std::int64_t layers = 0;
  std::int64_t width = 0;            // hidden size d
  std::int64_t heads = 0;            // query heads
  std::int64_t key_value_heads = 0;  // divides heads
  std::int64_t head_dimension = 0;   // given, or width / heads
  std::int64_t feed_forward_width = 0;
  std::int64_t vocabulary = 0;  // rows of the embedding; may be padded above the tokenizer's
  std::int64_t context_length = 0;
  double rms_norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  std::optional<Llama3RopeScaling> rope_scaling;
  bool query_key_value_bias = false;  // Qwen2
  bool tied_embeddings = false;       // the readout head is the embedding
  std::optional<std::int64_t> bos_token;
  std::vector<std::int64_t> eos_tokens;
};

/// Reads config.json. Throws InputError that names the file, the key and what is supported: unknown
/// model_type or rope type, missing or out-of-range keys, attention_bias or mlp_bias, activations other than
/// SiLU.
ModelConfig read_model_config(const std::filesystem::path& config_json);

/// Throws InputError (naming `where`) unless the numbers fit together.
void check_model_config(const ModelConfig& config, const std::string& where);

}  // namespace zerolock
