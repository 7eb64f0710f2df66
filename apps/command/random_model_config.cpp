#include "apps/command/random_model.hpp"

namespace zerolock {

namespace {

using nlohmann::ordered_json;

/// What all of them share; the rest in the order of a published config.json's keys.
ordered_json llama(ordered_json shape) {
  ordered_json config = {{"architectures", {"LlamaForCausalLM"}},
                         {"attention_bias", false},
                         {"hidden_act", "silu"},
                         {"mlp_bias", false},
                         {"model_type", "llama"},
                         {"torch_dtype", "bfloat16"}};
  config.update(shape);
  return config;
}

/// TinyLlama/TinyLlama-1.1B-Chat-v1.0.
ordered_json tinyllama() {
  return llama({{"bos_token_id", 1},
                {"eos_token_id", 2},
                {"hidden_size", 2048},
                {"initializer_range", 0.02},
                {"intermediate_size", 5632},
                {"max_position_embeddings", 2048},
                {"num_attention_heads", 32},
                {"num_hidden_layers", 22},
                {"num_key_value_heads", 4},
                {"rms_norm_eps", 1e-5},
                {"rope_theta", 10000.0},
                {"tie_word_embeddings", false},
                {"vocab_size", 32000}});
}

/// HuggingFaceTB/SmolLM2-135M.
ordered_json smollm2() {
  return llama({{"bos_token_id", 0},
                {"eos_token_id", 0},
                {"hidden_size", 576},
                {"initializer_range", 0.041666666666666664},
                {"intermediate_size", 1536},
                {"max_position_embeddings", 8192},
                {"num_attention_heads", 9},
                {"num_hidden_layers", 30},
                {"num_key_value_heads", 3},
                {"rms_norm_eps", 1e-5},
                {"rope_theta", 100000.0},
                {"tie_word_embeddings", true},
                {"vocab_size", 49152}});
}

/// meta-llama/Llama-3.2-1B.
ordered_json llama32() {
  return llama({{"bos_token_id", 128000},
                {"eos_token_id", 128001},
                {"head_dim", 64},
                {"hidden_size", 2048},
                {"initializer_range", 0.02},
                {"intermediate_size", 8192},
                {"max_position_embeddings", 131072},
                {"num_attention_heads", 32},
                {"num_hidden_layers", 16},
                {"num_key_value_heads", 8},
                {"rms_norm_eps", 1e-5},
                {"rope_scaling",
                 {{"factor", 32.0},
                  {"high_freq_factor", 4.0},
                  {"low_freq_factor", 1.0},
                  {"original_max_position_embeddings", 8192},
                  {"rope_type", "llama3"}}},
                {"rope_theta", 500000.0},
                {"tie_word_embeddings", true},
                {"vocab_size", 128256}});
}

/// Qwen/Qwen2.5-0.5B.
ordered_json qwen25() {
  return {{"architectures", {"Qwen2ForCausalLM"}},
          {"hidden_act", "silu"},
          {"model_type", "qwen2"},
          {"torch_dtype", "bfloat16"},
          {"bos_token_id", 151643},
          {"eos_token_id", 151643},
          {"hidden_size", 896},
          {"initializer_range", 0.02},
          {"intermediate_size", 4864},
          {"max_position_embeddings", 32768},
          {"num_attention_heads", 14},
          {"num_hidden_layers", 24},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000.0},
          {"tie_word_embeddings", true},
          {"use_sliding_window", false},
          {"vocab_size", 151936}};
}

struct Named {
  const char* name;
  ordered_json (*config)();
};
constexpr Named named[] = {{"tinyllama-1.1b", tinyllama},
                           {"smollm2-135m", smollm2},
                           {"llama-3.2-1b", llama32},
                           {"qwen2.5-0.5b", qwen25}};

}  // namespace

std::vector<std::string> random_model_names() {
  std::vector<std::string> names;
  for (const Named& model : named) names.emplace_back(model.name);
  return names;
}

std::optional<ordered_json> random_model_config(const std::string& name) {
  for (const Named& model : named) {
    if (name == model.name) return model.config();
  }
  return std::nullopt;
}

}  // namespace zerolock
