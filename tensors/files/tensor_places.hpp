#pragma once
/// Where a model's tensors lie in its files.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"

namespace zerolock {

/// Bytes of one of the model's files: the tensor's own and those up to the next tensor or the file's end
/// (GGUF aligns tensors). So a file is its header, which ends where the first tensor begins, and its tensors.
struct TensorPlace {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// A file that opening the model reads, mapped.
struct PlacedFile {
  std::string name;  // within the model's folder; that of a GGUF file is always "model.gguf"
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

struct TensorPlaces {
  std::vector<PlacedFile> files;
  /// By the model's names; tensors of a GGUF file that have none, by the file's.
  std::map<std::string, TensorPlace> tensors;
};

inline constexpr const char* gguf_file_name = "model.gguf";

/// Maps the files of an opened model once more. Throws InputError if it has none (a model in memory), or if
/// they cannot be read any more.
TensorPlaces find_tensor_places(const ModelFiles& model);

}  // namespace zerolock
