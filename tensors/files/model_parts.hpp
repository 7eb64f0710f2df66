#pragma once
/// The giving side of a model: its files cut into parts that other devices ask for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensors/base/indices.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/files/model_manifest.hpp"
#include "tensors/files/tensor_places.hpp"

namespace zerolock {

/// The files of an opened model in parts of at most model_part_bytes_max. Every part belongs to all stages
/// (everything that is not a tensor, the final norm, the readout matrix), to the first stage (the embedding)
/// or to the stage that has a certain layer; neighbours that belong together are one part. A head beside tied
/// embeddings, and tokenizers, are in none. Parts are hashed when they are first asked for. Thread-safe.
class ModelParts {
 public:
  /// Keeps the model's files mapped. Throws InputError if it has none (a model in memory).
  explicit ModelParts(std::shared_ptr<const ModelFiles> model);
  ~ModelParts();
  ModelParts(const ModelParts&) = delete;
  ModelParts& operator=(const ModelParts&) = delete;

  /// The files that opening the model reads.
  [[nodiscard]] const std::vector<ModelFileSize>& files() const { return files_; }
  /// What a stage of these layers needs; `embeds` for the first stage. Reads all bytes that have not been
  /// hashed before (and the whole model once, for its content hash). Throws InputError if the model has no
  /// such layers.
  [[nodiscard]] ModelManifest manifest(const LayerRange& layers, bool embeds) const;
  /// The bytes of a part, valid as long as this object. Throws InputError if it is not one of the parts.
  [[nodiscard]] std::span<const std::byte> read_part(std::uint64_t file, std::uint64_t offset,
                                                     std::uint64_t length) const;

 private:
  struct Part;

  void add_parts_of(std::size_t file);
  [[nodiscard]] const std::string& hash_of(const Part& part) const;

  std::shared_ptr<const ModelFiles> model_;
  TensorPlaces places_;
  std::vector<ModelFileSize> files_;
  std::vector<std::unique_ptr<Part>> parts_;  // by file and offset
};

}  // namespace zerolock
