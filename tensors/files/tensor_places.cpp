#include "tensors/files/tensor_places.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"
#include "tensors/files/gguf_model.hpp"
#include "tensors/files/mapped_file.hpp"
#include "tensors/files/model_folder.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

/// A file as a whole, without tensors.
void add_plain_file(TensorPlaces& places, const std::filesystem::path& folder, const std::string& name) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(folder / name);
  places.files.push_back({name, file, file->bytes()});
}

/// A file and its tensors, which lie in `bytes`.
void add_weights(TensorPlaces& places, PlacedFile file, const std::map<std::string, StoredTensor>& tensors) {
  std::vector<std::pair<std::uint64_t, const std::string*>> order;
  for (const auto& [name, tensor] : tensors) {
    order.emplace_back(static_cast<std::uint64_t>(tensor.data() - file.bytes.data()), &name);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t end = i + 1 < order.size() ? order[i + 1].first : file.bytes.size();
    places.tensors[*order[i].second] = {places.files.size(), order[i].first, end - order[i].first};
  }
  places.files.push_back(std::move(file));
}

}  // namespace

TensorPlaces find_tensor_places(const ModelFiles& model) {
  TensorPlaces places;
  if (const std::shared_ptr<const GgufFile> gguf = model.gguf()) {
    std::map<std::string, StoredTensor> tensors;
    for (const auto& [name, tensor] : gguf->tensors()) {
      tensors.emplace(hugging_face_name(name).value_or(name), tensor);
    }
    add_weights(places, {gguf_file_name, gguf, gguf->bytes()}, tensors);
    return places;
  }
  if (!std::filesystem::is_directory(model.path())) {
    throw InputError(model.path().string(), "is not a model on disk that could be given to other devices");
  }
  add_plain_file(places, model.path(), "config.json");
  const FolderWeights weights = folder_weights(model.path());
  if (weights.index) add_plain_file(places, model.path(), *weights.index);
  for (const std::string& name : weights.safetensors) {
    const auto file = SafetensorsFile::open(model.path() / name);
    add_weights(places, {name, file, file->bytes()}, file->tensors());
  }
  return places;
}

}  // namespace zerolock
