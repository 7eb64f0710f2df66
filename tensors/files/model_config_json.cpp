#include "tensors/files/model_config_json.hpp"

namespace zerolock {

nlohmann::ordered_json hugging_face_config(const ModelConfig& config) {
  const bool llama = config.family == ModelFamily::llama;
  nlohmann::ordered_json json = {
      {"architectures", nlohmann::ordered_json::array({llama ? "LlamaForCausalLM" : "Qwen2ForCausalLM"})},
      {"model_type", llama ? "llama" : "qwen2"},
      {"hidden_act", "silu"},
      {"hidden_size", config.width},
      {"intermediate_size", config.feed_forward_width},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.key_value_heads},
      {"head_dim", config.head_dimension},
      {"vocab_size", config.vocabulary},
      {"max_position_embeddings", config.context_length},
      {"rms_norm_eps", config.rms_norm_epsilon},
      {"rope_theta", config.rope_theta},
      {"tie_word_embeddings", config.tied_embeddings}};
  if (llama) {
    json["attention_bias"] = false;
    json["mlp_bias"] = false;
  } else {
    json["use_sliding_window"] = false;
  }
  if (const auto& scaling = config.rope_scaling) {
    json["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", scaling->factor},
        {"low_freq_factor", scaling->low_frequency_factor},
        {"high_freq_factor", scaling->high_frequency_factor},
        {"original_max_position_embeddings", static_cast<std::int64_t>(scaling->original_context_length)}};
  }
  if (config.bos_token) json["bos_token_id"] = *config.bos_token;
  if (config.eos_tokens.size() == 1) {
    json["eos_token_id"] = config.eos_tokens.front();
  } else if (!config.eos_tokens.empty()) {
    json["eos_token_id"] = config.eos_tokens;
  }
  return json;
}

}  // namespace zerolock
