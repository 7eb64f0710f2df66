#include "tensors/files/model_folder.hpp"

#include <set>

#include "tensors/base/error.hpp"
#include "tensors/files/json_object.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

/// The index: the shard of every tensor.
std::map<std::string, std::string> read_index(const std::filesystem::path& index) {
  const nlohmann::json document = read_json_object(index);
  const JsonObject weight_map = JsonObject(index.string(), document).object("weight_map");
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, value] : document.at("weight_map").items()) {
    const std::string shard = weight_map.text(tensor.c_str());
    if (shard.empty() || std::filesystem::path(shard).filename() != shard) {
      throw InputError(index.string(), "tensor " + tensor + " is said to be in \"" + shard +
                                           "\", which is not the name of a file in this folder");
    }
    shards.emplace(tensor, shard);
  }
  if (shards.empty()) throw InputError(index.string(), "weight_map lists no tensors");
  return shards;
}

std::set<std::string> shards_of(const std::map<std::string, std::string>& shard_of) {
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  return shards;
}

std::map<std::string, StoredTensor> read_shards(const std::filesystem::path& folder) {
  const std::filesystem::path index = folder / index_name;
  const std::map<std::string, std::string> shard_of = read_index(index);

  std::map<std::string, StoredTensor> tensors;
  for (const std::string& shard : shards_of(shard_of)) {
    const std::filesystem::path file = folder / shard;
    if (!std::filesystem::exists(file)) {
      throw InputError(file.string(), std::string("is missing, but ") + index_name + " lists it");
    }
    const auto opened = SafetensorsFile::open(file);
    for (const auto& [name, tensor] : opened->tensors()) {
      const auto listed = shard_of.find(name);
      if (listed == shard_of.end()) {
        throw InputError(file.string(), "holds tensor " + name + ", which " + index_name + " does not list");
      }
      if (listed->second != shard) {
        throw InputError(file.string(),
                         "holds tensor " + name + ", which " + index_name + " puts into " + listed->second);
      }
      tensors.emplace(name, tensor);
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!tensors.contains(tensor)) {
      throw InputError(index.string(),
                       "tensor " + tensor + " is said to be in " + shard + ", which does not hold it");
    }
  }
  return tensors;
}

}  // namespace

std::map<std::string, StoredTensor> read_folder_tensors(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / index_name)) return read_shards(folder);
  if (std::filesystem::exists(folder / single_name))
    return SafetensorsFile::open(folder / single_name)->tensors();
  throw InputError(folder.string(),
                   std::string("has no weights: neither ") + single_name + " nor " + index_name);
}

FolderWeights folder_weights(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / index_name)) return {{single_name}, std::nullopt};
  const std::set<std::string> shards = shards_of(read_index(folder / index_name));
  return {{shards.begin(), shards.end()}, index_name};
}

}  // namespace zerolock
