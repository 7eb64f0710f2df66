#include "tensors/files/model_config.hpp"

#include <cmath>

#include "tensors/base/error.hpp"
#include "tensors/files/json_object.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

// Far above every published model; they keep all products of sizes inside 64 bits.
constexpr std::int64_t layers_max = 1 << 16;
constexpr std::int64_t width_max = 1 << 20;
constexpr std::int64_t vocabulary_max = 1 << 24;
constexpr std::int64_t context_max = std::int64_t{1} << 31;

ModelFamily read_family(const JsonObject& config) {
  const std::string type = config.text("model_type");
  if (type == "llama") return ModelFamily::llama;
  if (type == "qwen2") return ModelFamily::qwen2;
  config.refuse("model_type", "\"" + type + "\" is not supported (supported: llama, qwen2)");
}

/// transformers before version 5 writes rope_theta and rope_scaling next to each other (the type under
/// "rope_type" or, older still, "type"); version 5 puts both into rope_parameters.
void read_rope(const JsonObject& config, ModelConfig& model) {
  model.rope_theta = config.number_or("rope_theta", model.rope_theta);
  const char* const key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(key)) return;
  const JsonObject rope = config.object(key);
  model.rope_theta = rope.number_or("rope_theta", model.rope_theta);
  const char* const type_key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(type_key);
  if (rope.number_or("partial_rotary_factor", 1.0) != 1.0)
    rope.refuse("partial_rotary_factor", "other than 1 is not supported");
  if (type == "default") return;
  if (type != "llama3") {
    rope.refuse(type_key, "\"" + type + "\" is not supported (supported: default, llama3)");
  }
  model.rope_scaling = Llama3RopeScaling{
      .factor = rope.number("factor"),
      .low_frequency_factor = rope.number("low_freq_factor"),
      .high_frequency_factor = rope.number("high_freq_factor"),
      .original_context_length = rope.number("original_max_position_embeddings"),
  };
}

/// Everything that would silently compute something else is refused by name.
void refuse_unsupported(const JsonObject& config) {
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    if (config.boolean_or(key, false)) config.refuse(key, "true is not supported (only false)");
  }
  const std::string activation = config.text_or("hidden_act", "silu");
  if (activation != "silu")
    config.refuse("hidden_act", "\"" + activation + "\" is not supported (supported: silu)");
  if (config.number_or("partial_rotary_factor", 1.0) != 1.0) {
    config.refuse("partial_rotary_factor", "other than 1 is not supported");
  }
  if (config.has("quantization_config")) {
    config.refuse("quantization_config", "is not supported: give plain weights, or a GGUF file");
  }
  if (config.has("layer_types")) {
    for (const std::string& type : config.texts("layer_types")) {
      if (type != "full_attention") {
        config.refuse("layer_types", "\"" + type + "\" is not supported (supported: full_attention)");
      }
    }
  }
}

std::vector<std::int64_t> read_token_list(const JsonObject& config, const char* key) {
  const json* const value = config.find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {config.integer(key)};
  std::vector<std::int64_t> tokens;
  for (const json& token : *value) {
    if (!token.is_number_integer()) config.refuse(key, "must hold integers, holds " + describe(token));
    tokens.push_back(token.get<std::int64_t>());
  }
  return tokens;
}

std::int64_t read_head_dimension(const JsonObject& config, const ModelConfig& model) {
  if (config.has("head_dim")) return config.integer("head_dim");
  if (model.heads < 1 || model.width % model.heads != 0) {
    config.refuse("num_attention_heads", std::to_string(model.heads) + " does not divide hidden_size " +
                                             std::to_string(model.width) + ", and head_dim is not given");
  }
  return model.width / model.heads;
}

void check_range(const std::string& where, const char* what, std::int64_t value, std::int64_t maximum) {
  if (value < 1 || value > maximum) {
    throw InputError(where, std::string(what) + " is " + std::to_string(value) + ", must be 1 to " +
                                std::to_string(maximum));
  }
}

void check_positive(const std::string& where, const char* what, double value) {
  if (!std::isfinite(value) || value <= 0.0) {
    throw InputError(where, std::string(what) + " is " + std::to_string(value) + ", must be positive");
  }
}

void check_token(const std::string& where, const char* what, std::int64_t token, std::int64_t vocabulary) {
  if (token < 0 || token >= vocabulary) {
    throw InputError(where, std::string(what) + " token " + std::to_string(token) +
                                " is not in the vocabulary of " + std::to_string(vocabulary));
  }
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& config_json) {
  const json document = read_json_object(config_json);
  const JsonObject config(config_json.string(), document);
  ModelConfig model;
  model.family = read_family(config);
  refuse_unsupported(config);
  model.layers = config.integer("num_hidden_layers");
  model.width = config.integer("hidden_size");
  model.heads = config.integer("num_attention_heads");
  model.key_value_heads = config.integer_or("num_key_value_heads", model.heads);
  model.head_dimension = read_head_dimension(config, model);
  model.feed_forward_width = config.integer("intermediate_size");
  model.vocabulary = config.integer("vocab_size");
  model.context_length = config.integer("max_position_embeddings");
  model.rms_norm_epsilon = config.number_or("rms_norm_eps", 1e-6);  // transformers' default
  read_rope(config, model);
  model.query_key_value_bias = model.family == ModelFamily::qwen2;
  model.tied_embeddings = config.boolean_or("tie_word_embeddings", false);
  if (config.has("bos_token_id")) model.bos_token = config.integer("bos_token_id");
  model.eos_tokens = read_token_list(config, "eos_token_id");
  check_model_config(model, config_json.string());
  return model;
}

void check_model_config(const ModelConfig& config, const std::string& where) {
  check_range(where, "the number of layers", config.layers, layers_max);
  check_range(where, "the hidden size", config.width, width_max);
  check_range(where, "the number of attention heads", config.heads, width_max);
  check_range(where, "the number of key/value heads", config.key_value_heads, config.heads);
  check_range(where, "the head dimension", config.head_dimension, width_max);
  check_range(where, "heads times head dimension", config.heads * config.head_dimension, width_max);
  check_range(where, "the feed-forward width", config.feed_forward_width, width_max);
  check_range(where, "the vocabulary", config.vocabulary, vocabulary_max);
  check_range(where, "the context length", config.context_length, context_max);
  if (config.heads % config.key_value_heads != 0) {
    throw InputError(where, std::to_string(config.key_value_heads) + " key/value heads do not divide " +
                                std::to_string(config.heads) + " attention heads");
  }
  if (config.head_dimension % 2 != 0) {
    throw InputError(where, "the head dimension " + std::to_string(config.head_dimension) +
                                " is odd; rotary embeddings turn pairs");
  }
  check_positive(where, "the RMS norm's epsilon", config.rms_norm_epsilon);
  check_positive(where, "rope_theta", config.rope_theta);
  if (config.rope_scaling) {
    check_positive(where, "the rope scaling's factor", config.rope_scaling->factor);
    check_positive(where, "the rope scaling's low frequency factor",
                   config.rope_scaling->low_frequency_factor);
    check_positive(where, "the rope scaling's original context",
                   config.rope_scaling->original_context_length);
    if (!(config.rope_scaling->high_frequency_factor > config.rope_scaling->low_frequency_factor)) {
      throw InputError(where, "the rope scaling's high frequency factor must exceed the low one");
    }
  }
  if (config.bos_token) check_token(where, "the beginning-of-sequence", *config.bos_token, config.vocabulary);
  for (const std::int64_t token : config.eos_tokens) {
    check_token(where, "an end-of-sequence", token, config.vocabulary);
  }
}

}  // namespace zerolock
