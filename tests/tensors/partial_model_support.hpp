#pragma once
/// Small models in every kind of file, and a fetch without a network.

#include <nlohmann/json.hpp>

#include "tensors/files/model_parts.hpp"
#include "tensors/files/partial_model.hpp"
#include "tensors/files/safetensors.hpp"
#include "tests/tensors/files_gguf_writer.hpp"
#include "tests/tensors/files_support.hpp"

namespace zerolock::test {

/// folder: tiny-llama; sharded: the same in two shards; gguf: the same as a GGUF file with rope_freqs;
/// tied: one whose embedding is the head and longer than a part.
inline const std::vector<std::string> model_kinds{"folder", "sharded", "gguf", "tied"};

inline TensorMap expanded(const ModelFiles& model) {
  TensorMap tensors;
  for (const std::string& name : model.names()) tensors[name] = model.tensor(name).expand();
  return tensors;
}

inline void write_sharded(const std::filesystem::path& folder, const TensorMap& tensors) {
  const std::string names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  TensorMap shards[2];
  nlohmann::json index;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t shard = name < "model.layers.2.mlp" ? 0 : 1;
    shards[shard][name] = tensor;
    index["weight_map"][name] = names[shard];
  }
  for (std::size_t i = 0; i < 2; ++i) write_safetensors(folder / names[i], shards[i], {{"format", "pt"}});
  write_bytes(folder / "model.safetensors.index.json", index.dump());
}

/// Makes a model of that kind in the folder and returns its path.
inline std::filesystem::path make_model(const TemporaryFolder& folder, const std::string& kind) {
  const auto tiny = ModelFiles::open(fixture("models/tiny-llama"));
  const std::string config = read_bytes(fixture("models/tiny-llama/config.json"));
  if (kind == "gguf") {
    GgufWriter writer = gguf_of(*tiny, "llama");
    writer.add_tensor("rope_freqs.weight", at::ones({8}));
    return folder.write("any name.gguf", writer.bytes());
  }
  folder.write("config.json", config);
  folder.write("tokenizer.json", "{}");
  if (kind == "sharded") {
    write_sharded(folder.path(), expanded(*tiny));
  } else if (kind == "tied") {
    nlohmann::json changed = nlohmann::json::parse(config);
    changed["vocab_size"] = 20'000;
    changed["tie_word_embeddings"] = true;
    folder.write("config.json", changed.dump());
    const auto random =
        make_random_model(read_model_config(folder.path() / "config.json"), 3, StorageFormat::f32);
    TensorMap tensors = expanded(*random);
    tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight").clone();  // surplus, as in some files
    write_safetensors(folder.path() / "model.safetensors", tensors);
  } else {
    std::filesystem::copy_file(fixture("models/tiny-llama/model.safetensors"),
                               folder.path() / "model.safetensors");
  }
  return folder.path();
}

/// A model on a coordinator.
struct ServedModel {
  explicit ServedModel(const std::string& kind)
      : files(ModelFiles::open(make_model(folder, kind))), parts(files) {}

  [[nodiscard]] ModelManifest stage(std::size_t index) const {
    return parts.manifest(partition[index], index == 0);
  }

  TemporaryFolder folder;
  std::shared_ptr<const ModelFiles> files;
  ModelParts parts;
  std::vector<LayerRange> partition{{0, 2}, {2, 4}, {4, 6}};
};

inline std::span<const std::byte> bytes_of(const ModelParts& parts, const ModelPart& part) {
  return parts.read_part(part.file, part.offset, part.length);
}

/// Fetches missing parts, last ones first, up to a number.
inline void fetch(const ModelParts& parts, PartialModel& partial, std::size_t parts_max = SIZE_MAX) {
  const std::vector<std::size_t> missing = partial.missing();
  for (auto index = missing.rbegin(); index != missing.rend() && parts_max > 0; ++index, --parts_max) {
    partial.put(*index, bytes_of(parts, partial.manifest().parts[*index]));
  }
}

}  // namespace zerolock::test
