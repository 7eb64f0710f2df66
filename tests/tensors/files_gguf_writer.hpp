#pragma once
/// Makes small GGUF files for tests, right or wrong ones.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tests/tensors/files_support.hpp"

namespace zerolock::test {

class GgufWriter {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;

  static std::string text(std::string_view value) {
    return raw<std::uint64_t>(value.size()) + std::string(value);
  }

  void add(std::string_view key, std::uint32_t type, std::string_view bytes) {
    metadata_ += text(key) + raw(type) + std::string(bytes);
    ++metadata_count_;
  }
  void add(std::string_view key, std::uint32_t value) { add(key, 4, raw(value)); }
  void add(std::string_view key, float value) { add(key, 6, raw(value)); }
  void add(std::string_view key, bool value) { add(key, 7, raw(static_cast<std::uint8_t>(value))); }
  void add(std::string_view key, const char* value) { add(key, 8, text(value)); }
  template <class Number>
  void add_numbers(std::string_view key, std::uint32_t type, const std::vector<Number>& values) {
    std::string bytes = raw(type) + raw<std::uint64_t>(values.size());
    for (const Number value : values) bytes += raw(value);
    add(key, 9, bytes);
  }
  void add_texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += text(value);
    add(key, 9, bytes);
  }

  /// Sizes in GGUF's order, the row length first. The offset is where the bytes will lie, unless one is
  /// given.
  void add_tensor(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& sizes,
                  const std::string& bytes, std::int64_t offset = -1) {
    tensors_ += text(name) + raw(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) tensors_ += raw(size);
    tensors_ += raw(type) + raw(offset < 0 ? static_cast<std::uint64_t>(data_.size())
                                           : static_cast<std::uint64_t>(offset));
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32, '\0');
    ++tensor_count_;
  }
  /// A float32 tensor.
  void add_tensor(std::string_view name, const at::Tensor& values) {
    const at::Tensor contiguous = values.contiguous();
    std::vector<std::uint64_t> sizes(contiguous.sizes().rbegin(), contiguous.sizes().rend());
    add_tensor(name, 0, sizes, {static_cast<const char*>(contiguous.data_ptr()), contiguous.nbytes()});
  }

  [[nodiscard]] std::string bytes() const {
    std::string header =
        magic + raw(version) + raw(tensor_count_) + raw(metadata_count_) + metadata_ + tensors_;
    header.resize((header.size() + 31) / 32 * 32, '\0');
    return header + data_;
  }

 private:
  std::uint64_t metadata_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

/// The rows of a q or k projection as llama.cpp's converter lays them: rotary pairs interleaved within each
/// head.
inline at::Tensor interleaved(const at::Tensor& weight, std::int64_t heads) {
  const std::int64_t half = weight.size(0) / heads / 2;
  return weight.reshape({heads, 2, half, weight.size(1)}).transpose(1, 2).reshape(weight.sizes());
}

/// The name in a GGUF file, by a table of its own.
inline std::string gguf_name(std::string name) {
  const std::vector<std::pair<std::string, std::string>> replacements{
      {"model.layers.", "blk."},        {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},    {"lm_head", "output"},
      {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const auto& [from, to] : replacements) {
    if (const auto place = name.find(from); place != std::string::npos) name.replace(place, from.size(), to);
  }
  return name;
}

/// The same model as a GGUF file, all in float32.
inline GgufWriter gguf_of(const ModelFiles& model, const std::string& architecture) {
  const ModelConfig& config = model.config();
  const auto number = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  GgufWriter writer;
  writer.add("general.architecture", architecture.c_str());
  writer.add(architecture + ".block_count", number(config.layers));
  writer.add(architecture + ".context_length", number(config.context_length));
  writer.add(architecture + ".embedding_length", number(config.width));
  writer.add(architecture + ".feed_forward_length", number(config.feed_forward_width));
  writer.add(architecture + ".attention.head_count", number(config.heads));
  writer.add(architecture + ".attention.head_count_kv", number(config.key_value_heads));
  writer.add(architecture + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_epsilon));
  writer.add(architecture + ".rope.freq_base", static_cast<float>(config.rope_theta));
  writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  for (const std::string& name : model.names()) {
    at::Tensor weight = model.tensor(name).expand();
    if (architecture == "llama" && name.ends_with("q_proj.weight"))
      weight = interleaved(weight, config.heads);
    if (architecture == "llama" && name.ends_with("k_proj.weight"))
      weight = interleaved(weight, config.key_value_heads);
    writer.add_tensor(gguf_name(name), weight);
  }
  return writer;
}

}  // namespace zerolock::test
