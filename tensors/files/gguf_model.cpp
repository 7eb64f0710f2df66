#include "tensors/files/gguf_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr const char* rope_frequencies_name = "rope_freqs.weight";

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};
constexpr std::array layer_names{
    NamePair{"attn_norm", "input_layernorm"}, NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"attn_q", "self_attn.q_proj"},   NamePair{"attn_k", "self_attn.k_proj"},
    NamePair{"attn_v", "self_attn.v_proj"},   NamePair{"attn_output", "self_attn.o_proj"},
    NamePair{"ffn_gate", "mlp.gate_proj"},    NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"},
};

/// What the tensor rope_freqs.weight holds for a scaling: the divisor of each of the head's frequencies, as
/// in transformers' _compute_llama3_parameters.
std::vector<double> frequency_divisors(const Llama3RopeScaling& scaling, double theta,
                                       std::int64_t head_dimension) {
  std::vector<double> divisors;
  for (std::int64_t i = 0; i < head_dimension / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_dimension);
    const double wavelength = 2.0 * std::numbers::pi * std::pow(theta, exponent);
    const double turns = scaling.original_context_length / wavelength;
    if (turns < scaling.low_frequency_factor) {
      divisors.push_back(scaling.factor);
    } else if (turns > scaling.high_frequency_factor) {
      divisors.push_back(1.0);
    } else {
      const double smooth = (turns - scaling.low_frequency_factor) /
                            (scaling.high_frequency_factor - scaling.low_frequency_factor);
      divisors.push_back(1.0 / ((1.0 - smooth) / scaling.factor + smooth));
    }
  }
  return divisors;
}

/// GGUF keeps Llama 3's rope scaling as the divisors themselves. Llama 3.1 to 3.3 differ in the factor only,
/// which is the largest divisor; the rest is checked.
std::optional<Llama3RopeScaling> read_rope_scaling(const GgufFile& file, const ModelConfig& model) {
  const auto found = file.tensors().find(rope_frequencies_name);
  if (found == file.tensors().end()) return std::nullopt;
  const StoredTensor& tensor = found->second;
  const std::string where = file.path().string() + ", tensor " + rope_frequencies_name;
  if (tensor.elements() != model.head_dimension / 2) {
    throw InputError(where, "holds " + std::to_string(tensor.elements()) + " values, must hold " +
                                std::to_string(model.head_dimension / 2));
  }
  const at::Tensor values = tensor.expand(at::kDouble);
  const double* const divisors = values.data_ptr<double>();
  Llama3RopeScaling scaling;
  scaling.factor = *std::max_element(divisors, divisors + tensor.elements());
  const std::vector<double> expected = frequency_divisors(scaling, model.rope_theta, model.head_dimension);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(divisors[i] - expected[i]) <= 1e-4 * expected[i])) {
      throw InputError(where,
                       "is not Llama 3's rope scaling (original context 8192, factors 1 and 4), the only one "
                       "supported in GGUF files");
    }
  }
  return scaling;
}

void refuse_unsupported(const GgufFile& file, const std::string& prefix, const ModelConfig& model) {
  const std::string where = file.path().string();
  const std::string scaling = file.optional_string(prefix + "rope.scaling.type").value_or("none");
  if (scaling != "none") {
    throw InputError(where,
                     prefix + "rope.scaling.type \"" + scaling + "\" is not supported (supported: none)");
  }
  if (file.optional_float(prefix + "rope.scale_linear").value_or(1.0) != 1.0) {
    throw InputError(where, prefix + "rope.scale_linear other than 1 is not supported");
  }
  if (file.optional_integer(prefix + "expert_count").value_or(0) != 0) {
    throw InputError(where, prefix + "expert_count: mixtures of experts are not supported");
  }
  for (const char* key : {"rope.dimension_count", "attention.key_length", "attention.value_length"}) {
    const std::int64_t size = file.optional_integer(prefix + key).value_or(model.head_dimension);
    if (size != model.head_dimension) {
      throw InputError(where, prefix + key + " is " + std::to_string(size) + ", must be the head dimension " +
                                  std::to_string(model.head_dimension));
    }
  }
}

std::int64_t read_head_dimension(const GgufFile& file, const std::string& prefix, const ModelConfig& model) {
  if (const auto given = file.optional_integer(prefix + "attention.key_length")) return *given;
  if (model.heads < 1 || model.width % model.heads != 0) {
    throw InputError(file.path().string(), prefix + "attention.head_count " + std::to_string(model.heads) +
                                               " does not divide the embedding length " +
                                               std::to_string(model.width));
  }
  return model.width / model.heads;
}

}  // namespace

ModelConfig read_model_config(const GgufFile& file) {
  const std::string& architecture = file.metadata_string("general.architecture");
  ModelConfig model;
  if (architecture == "qwen2") {
    model.family = ModelFamily::qwen2;
  } else if (architecture != "llama") {
    throw InputError(file.path().string(), "general.architecture \"" + architecture +
                                               "\" is not supported (supported: llama, qwen2)");
  }
  const std::string prefix = architecture + ".";
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end())
    throw InputError(file.path().string(), "has no tensor token_embd.weight");
  model.layers = file.metadata_integer(prefix + "block_count");
  model.width = file.metadata_integer(prefix + "embedding_length");
  model.heads = file.metadata_integer(prefix + "attention.head_count");
  model.key_value_heads = file.optional_integer(prefix + "attention.head_count_kv").value_or(model.heads);
  model.head_dimension = read_head_dimension(file, prefix, model);
  model.feed_forward_width = file.metadata_integer(prefix + "feed_forward_length");
  model.vocabulary = embedding->second.rows();
  model.context_length = file.metadata_integer(prefix + "context_length");
  model.rms_norm_epsilon = file.metadata_float(prefix + "attention.layer_norm_rms_epsilon");
  model.rope_theta = file.optional_float(prefix + "rope.freq_base").value_or(model.rope_theta);
  model.query_key_value_bias = model.family == ModelFamily::qwen2;
  model.tied_embeddings = !file.tensors().contains("output.weight");
  model.bos_token = file.optional_integer("tokenizer.ggml.bos_token_id");
  if (const auto eos = file.optional_integer("tokenizer.ggml.eos_token_id")) model.eos_tokens = {*eos};
  check_model_config(model, file.path().string());
  refuse_unsupported(file, prefix, model);
  model.rope_scaling = read_rope_scaling(file, model);
  return model;
}

std::map<std::string, StoredTensor> hugging_face_tensors(const GgufFile& file, const ModelConfig& config) {
  const auto order_of = [&](std::int64_t heads) {
    return std::make_shared<const std::vector<std::int64_t>>(
        interleaved_rotary_row_order(heads, config.head_dimension));
  };
  const auto query_order = order_of(config.heads);
  const auto key_order = order_of(config.key_value_heads);
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [gguf_name, tensor] : file.tensors()) {
    if (gguf_name == rope_frequencies_name) continue;
    const std::string name = hugging_face_name(gguf_name).value_or(gguf_name);
    StoredTensor renamed = tensor.renamed(name);
    if (config.family == ModelFamily::llama) {
      const auto& order = name.ends_with("q_proj.weight") ? query_order : key_order;
      const bool rotary = name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight");
      // Another number of rows is left as it is: the check against the config reports the shape.
      if (rotary && tensor.rows() == static_cast<std::int64_t>(order->size()))
        renamed = renamed.with_row_order(order);
    }
    if (!tensors.emplace(name, std::move(renamed)).second) {
      throw InputError(file.path().string(), "tensor " + gguf_name + " is there under two names");
    }
  }
  return tensors;
}

std::optional<std::string> hugging_face_name(const std::string& gguf_name) {
  if (gguf_name == "token_embd.weight") return "model.embed_tokens.weight";
  if (gguf_name == "output_norm.weight") return "model.norm.weight";
  if (gguf_name == "output.weight") return "lm_head.weight";
  constexpr std::string_view layer_prefix = "blk.";
  if (!gguf_name.starts_with(layer_prefix)) return std::nullopt;
  const std::size_t number_end = gguf_name.find('.', layer_prefix.size());
  const std::size_t suffix = gguf_name.rfind('.');
  if (number_end == std::string::npos || suffix <= number_end) return std::nullopt;
  const std::string_view middle = std::string_view(gguf_name).substr(number_end + 1, suffix - number_end - 1);
  for (const NamePair& pair : layer_names) {
    if (pair.gguf == middle) {
      return "model.layers." + gguf_name.substr(layer_prefix.size(), number_end - layer_prefix.size()) + "." +
             std::string(pair.hugging_face) + gguf_name.substr(suffix);
    }
  }
  return std::nullopt;
}

std::vector<std::int64_t> interleaved_rotary_row_order(std::int64_t heads, std::int64_t head_dimension) {
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(heads * head_dimension));
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t i = 0; i < head_dimension / 2; ++i)
        order.push_back(head * head_dimension + 2 * i + j);
    }
  }
  return order;
}

}  // namespace zerolock
