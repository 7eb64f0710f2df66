#pragma once
/// The weights of a Hugging Face model folder: model.safetensors, or shards with an index.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensors/files/stored_tensor.hpp"

namespace zerolock {

/// All tensors of the folder's weights by name. With model.safetensors.index.json the shards it lists are
/// read, and they must agree with it exactly: every listed tensor in the shard it is said to be in, no tensor
/// in two shards, none that is not listed. Other files in the folder are not looked at. Throws InputError.
std::map<std::string, StoredTensor> read_folder_tensors(const std::filesystem::path& folder);

/// Names of files in the folder.
struct FolderWeights {
  std::vector<std::string> safetensors;  // sorted
  std::optional<std::string> index;
};
/// The files that read_folder_tensors reads. Throws InputError for a broken index.
FolderWeights folder_weights(const std::filesystem::path& folder);

}  // namespace zerolock
