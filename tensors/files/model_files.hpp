#pragma once
/// A model on disk: a Hugging Face folder or one GGUF file behind one face.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensors/files/model_config.hpp"
#include "tensors/files/stored_tensor.hpp"

namespace zerolock {

class GgufFile;

/// An opened model. Weights are mapped, not read; names are Hugging Face's
/// ("model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight", "model.norm.weight",
/// "lm_head.weight"), whatever the file calls them, and q/k rows are in Hugging Face's order. Immutable and
/// thread-safe after opening; StoredTensors outlive it.
class ModelFiles {
 public:
  /// Opens and checks everything: every tensor the config asks for is there with its shape, an index agrees
  /// with its shards, no length leads outside a file. Throws InputError.
  static std::shared_ptr<const ModelFiles> open(const std::filesystem::path& folder_or_gguf);
  virtual ~ModelFiles() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
  /// Throws InputError if there is no such tensor.
  [[nodiscard]] virtual StoredTensor tensor(const std::string& name) const = 0;
  [[nodiscard]] virtual bool contains(const std::string& name) const = 0;
  /// All names, sorted.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  /// The readout matrix [vocabulary, width]: lm_head.weight, or the embedding when tied.
  [[nodiscard]] StoredTensor head() const;
  /// The GGUF file behind it, for its tokenizer; null for a folder.
  [[nodiscard]] virtual std::shared_ptr<const GgufFile> gguf() const = 0;
  /// SHA-256 over config and weight bytes: names the model in checkpoints and adapters. Computed at the first
  /// call (reads all bytes once), then remembered.
  [[nodiscard]] virtual std::string content_hash() const = 0;
};

/// Every tensor that a decoder of this shape needs, with its own shape, by Hugging Face's names.
std::map<std::string, std::vector<std::int64_t>> model_tensor_shapes(const ModelConfig& config);

/// A seeded model of the given shape in memory, normal weights with standard deviation 0.02, norms 1; for
/// benchmarks and tests of shapes.
std::shared_ptr<const ModelFiles> make_random_model(const ModelConfig& config, std::uint64_t seed,
                                                    StorageFormat format);

}  // namespace zerolock
