#include "tensors/files/model_files.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/gguf.hpp"
#include "tensors/files/gguf_model.hpp"
#include "tensors/files/model_folder.hpp"

namespace zerolock {
namespace {

using Shape = std::vector<std::int64_t>;
using Shapes = std::map<std::string, Shape>;
using Tensors = std::map<std::string, StoredTensor>;

constexpr const char* embedding_name = "model.embed_tokens.weight";
constexpr const char* norm_name = "model.norm.weight";
constexpr const char* head_name = "lm_head.weight";

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

bool is_floating(StorageFormat format) {
  return format != StorageFormat::i64 && format != StorageFormat::i32 && format != StorageFormat::u8;
}

/// Tensors that may lie in a file without being used: a head beside tied embeddings, and the frequencies that
/// old versions of transformers stored.
bool is_harmless_surplus(const std::string& name) {
  return name == head_name || name.ends_with(".rotary_emb.inv_freq");
}

void check_tensors(const std::filesystem::path& path, const ModelConfig& config, const Tensors& tensors) {
  const Shapes required = model_tensor_shapes(config);
  for (const auto& [name, shape] : required) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      throw InputError(path.string(),
                       "tensor " + name + " is missing (the config asks for " + text_of(shape) + ")");
    }
    const StoredTensor& tensor = found->second;
    if (tensor.shape() != shape) {
      throw InputError(path.string(), "tensor " + name + " has the shape " + text_of(tensor.shape()) +
                                          ", the config asks for " + text_of(shape));
    }
    if (!is_floating(tensor.format())) {
      throw InputError(path.string(), "tensor " + name + " holds integers (" +
                                          std::string(to_string(tensor.format())) +
                                          "), weights must be floating-point or block-quantised");
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!required.contains(name) && !is_harmless_surplus(name)) {
      throw InputError(path.string(),
                       "tensor " + name + " has no place in the model that the config describes");
    }
  }
}

/// A text that is equal for equal models, however their config was spelled.
std::string canonical_text(const ModelConfig& config) {
  std::ostringstream text;
  text.precision(17);
  text << (config.family == ModelFamily::llama ? "llama" : "qwen2");
  for (const std::int64_t size :
       {config.layers, config.width, config.heads, config.key_value_heads, config.head_dimension,
        config.feed_forward_width, config.vocabulary, std::int64_t{config.query_key_value_bias},
        std::int64_t{config.tied_embeddings}}) {
    text << ' ' << size;
  }
  text << ' ' << config.rms_norm_epsilon << ' ' << config.rope_theta;
  if (const auto& scaling = config.rope_scaling) {
    text << " llama3 " << scaling->factor << ' ' << scaling->low_frequency_factor << ' '
         << scaling->high_frequency_factor << ' ' << scaling->original_context_length;
  }
  text << '\n';
  return text.str();
}

/// A model whose tensors are all known by Hugging Face's names, wherever they lie.
class OpenedModel final : public ModelFiles {
 public:
  OpenedModel(std::filesystem::path path, ModelConfig config, Tensors tensors,
              std::shared_ptr<const GgufFile> gguf)
      : path_(std::move(path)),
        config_(std::move(config)),
        tensors_(std::move(tensors)),
        gguf_(std::move(gguf)) {
    check_tensors(path_, config_, tensors_);
  }

  const ModelConfig& config() const override { return config_; }
  const std::filesystem::path& path() const override { return path_; }
  bool contains(const std::string& name) const override { return tensors_.contains(name); }
  std::shared_ptr<const GgufFile> gguf() const override { return gguf_; }

  StoredTensor tensor(const std::string& name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw InputError(path_.string(), "has no tensor " + name);
    return found->second;
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }

  std::string content_hash() const override {
    std::call_once(hash_once_, [this] {
      Sha256 hash;
      hash.update(canonical_text(config_));
      for (const auto& [name, tensor] : tensors_) {
        hash.update(name + " " + std::string(to_string(tensor.format())) + " " + text_of(tensor.shape()) +
                    "\n");
        hash.update(std::span(tensor.data(), tensor.stored_bytes()));
        tensor.release();
      }
      hash_ = hash.finish();
    });
    return hash_;
  }

 private:
  std::filesystem::path path_;
  ModelConfig config_;
  Tensors tensors_;
  std::shared_ptr<const GgufFile> gguf_;
  mutable std::once_flag hash_once_;
  mutable std::string hash_;
};

std::shared_ptr<const ModelFiles> open_folder(const std::filesystem::path& folder) {
  const std::filesystem::path config_json = folder / "config.json";
  if (!std::filesystem::exists(config_json)) {
    throw InputError(
        folder.string(),
        "has no config.json: a model is a Hugging Face folder (config.json, safetensors) or a GGUF file");
  }
  return std::make_shared<OpenedModel>(folder, read_model_config(config_json), read_folder_tensors(folder),
                                       nullptr);
}

bool begins_like_gguf(const std::filesystem::path& file) {
  std::array<char, 4> magic{};
  return std::ifstream(file, std::ios::binary).read(magic.data(), magic.size()) &&
         std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> model_tensor_shapes(const ModelConfig& config) {
  const std::int64_t query_width = config.heads * config.head_dimension;
  const std::int64_t key_width = config.key_value_heads * config.head_dimension;
  Shapes shapes{{embedding_name, {config.vocabulary, config.width}}, {norm_name, {config.width}}};
  if (!config.tied_embeddings) shapes[head_name] = {config.vocabulary, config.width};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    shapes[prefix + "input_layernorm.weight"] = {config.width};
    shapes[prefix + "post_attention_layernorm.weight"] = {config.width};
    shapes[prefix + "self_attn.q_proj.weight"] = {query_width, config.width};
    shapes[prefix + "self_attn.k_proj.weight"] = {key_width, config.width};
    shapes[prefix + "self_attn.v_proj.weight"] = {key_width, config.width};
    shapes[prefix + "self_attn.o_proj.weight"] = {config.width, query_width};
    shapes[prefix + "mlp.gate_proj.weight"] = {config.feed_forward_width, config.width};
    shapes[prefix + "mlp.up_proj.weight"] = {config.feed_forward_width, config.width};
    shapes[prefix + "mlp.down_proj.weight"] = {config.width, config.feed_forward_width};
    if (config.query_key_value_bias) {
      shapes[prefix + "self_attn.q_proj.bias"] = {query_width};
      shapes[prefix + "self_attn.k_proj.bias"] = {key_width};
      shapes[prefix + "self_attn.v_proj.bias"] = {key_width};
    }
  }
  return shapes;
}

std::shared_ptr<const ModelFiles> ModelFiles::open(const std::filesystem::path& folder_or_gguf) {
  if (std::filesystem::is_directory(folder_or_gguf)) return open_folder(folder_or_gguf);
  if (!std::filesystem::exists(folder_or_gguf)) throw InputError(folder_or_gguf.string(), "does not exist");
  if (folder_or_gguf.extension() != ".gguf" && !begins_like_gguf(folder_or_gguf)) {
    throw InputError(folder_or_gguf.string(), "is neither a Hugging Face model folder nor a GGUF file");
  }
  auto gguf = GgufFile::open(folder_or_gguf);
  ModelConfig config = read_model_config(*gguf);
  Tensors tensors = hugging_face_tensors(*gguf, config);
  return std::make_shared<OpenedModel>(folder_or_gguf, std::move(config), std::move(tensors),
                                       std::move(gguf));
}

StoredTensor ModelFiles::head() const {
  return tensor(config().tied_embeddings ? embedding_name : head_name);
}

std::shared_ptr<const ModelFiles> make_random_model(const ModelConfig& config, std::uint64_t seed,
                                                    StorageFormat format) {
  constexpr double standard_deviation = 0.02;
  check_model_config(config, "random model");
  at::Generator generator = at::detail::createCPUGenerator(seed);
  Tensors tensors;
  for (const auto& [name, shape] : model_tensor_shapes(config)) {
    if (name.ends_with("norm.weight")) {
      tensors.emplace(name, stored(name, at::ones(shape, at::kFloat)));
      continue;
    }
    const at::Tensor values = at::empty(shape, at::kFloat).normal_(0.0, standard_deviation, generator);
    const StoredTensor plain = stored(name, values);
    // Biases stay float32, as in every published file.
    const bool matrix = shape.size() == 2 && format != StorageFormat::f32;
    tensors.emplace(name, matrix ? plain.converted(format) : plain);
  }
  return std::make_shared<OpenedModel>("random model", config, std::move(tensors), nullptr);
}

}  // namespace zerolock
