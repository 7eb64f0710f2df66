#include "tensors/files/model_parts.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"

namespace zerolock {
namespace {

/// Who needs some bytes: every stage, the first one, or the one that has a layer.
struct Need {
  enum class Kind { every_stage, embedding, layer } kind = Kind::every_stage;
  std::int64_t layer = 0;

  auto operator<=>(const Need&) const = default;
};

/// Nothing for tensors that no stage uses.
std::optional<Need> need_of(const std::string& tensor, const ModelConfig& config) {
  if (tensor == "model.embed_tokens.weight") {
    return Need{config.tied_embeddings ? Need::Kind::every_stage : Need::Kind::embedding};
  }
  if (tensor == "lm_head.weight") {
    return config.tied_embeddings ? std::nullopt : std::optional<Need>(Need{});
  }
  // GGUF's rope_freqs.weight is part of the config: it is read when the model opens.
  if (tensor == "model.norm.weight" || tensor == "rope_freqs.weight") return Need{};
  constexpr std::string_view layer_prefix = "model.layers.";
  if (!tensor.starts_with(layer_prefix)) return std::nullopt;
  Need need{Need::Kind::layer};
  const auto read =
      std::from_chars(tensor.data() + layer_prefix.size(), tensor.data() + tensor.size(), need.layer);
  return read.ec == std::errc() ? std::optional(need) : std::nullopt;
}

/// Neighbouring bytes of a file with one need.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::optional<Need> need;
};

/// Appends a range, or lengthens the last one.
void add_range(std::vector<Range>& ranges, const Range& range) {
  if (range.begin == range.end) return;
  if (!ranges.empty() && ranges.back().need == range.need) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

}  // namespace

struct ModelParts::Part {
  ModelPart place;  // without hash
  Need need;
  mutable std::once_flag hashed;
  mutable std::string sha256;
};

ModelParts::ModelParts(std::shared_ptr<const ModelFiles> model)
    : model_(std::move(model)), places_(find_tensor_places(*model_)) {
  for (std::size_t file = 0; file < places_.files.size(); ++file) {
    files_.push_back({places_.files[file].name, places_.files[file].bytes.size()});
    add_parts_of(file);
  }
}

ModelParts::~ModelParts() = default;

void ModelParts::add_parts_of(std::size_t file) {
  const std::uint64_t size = places_.files[file].bytes.size();
  std::vector<Range> tensors;
  for (const auto& [name, place] : places_.tensors) {
    if (place.file == file) {
      tensors.push_back({place.offset, place.offset + place.length, need_of(name, model_->config())});
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const Range& left, const Range& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  std::vector<Range> ranges;
  add_range(ranges, {0, tensors.empty() ? size : tensors.front().begin, Need{}});
  for (const Range& tensor : tensors) add_range(ranges, tensor);
  for (const Range& range : ranges) {
    for (std::uint64_t begin = range.begin; range.need && begin < range.end; begin += model_part_bytes_max) {
      auto part = std::make_unique<Part>();
      part->place = {file, begin, std::min(model_part_bytes_max, range.end - begin), ""};
      part->need = *range.need;
      parts_.push_back(std::move(part));
    }
  }
}

const std::string& ModelParts::hash_of(const Part& part) const {
  std::call_once(part.hashed, [&] {
    part.sha256 =
        sha256_of(places_.files[part.place.file].bytes.subspan(part.place.offset, part.place.length));
  });
  return part.sha256;
}

ModelManifest ModelParts::manifest(const LayerRange& layers, bool embeds) const {
  if (layers.first < 0 || layers.last <= layers.first || layers.last > model_->config().layers) {
    throw InputError("layers " + std::to_string(layers.first) + " to " + std::to_string(layers.last),
                     "are not a stage of a model of " + std::to_string(model_->config().layers) + " layers");
  }
  ModelManifest manifest;
  manifest.content_hash = model_->content_hash();
  manifest.gguf = model_->gguf() != nullptr;
  manifest.files = files_;
  for (const auto& part : parts_) {
    const bool layer = part->need.layer >= layers.first && part->need.layer < layers.last;
    const bool needed = part->need.kind == Need::Kind::every_stage ||
                        (part->need.kind == Need::Kind::embedding && embeds) ||
                        (part->need.kind == Need::Kind::layer && layer);
    if (!needed) continue;
    manifest.parts.push_back(part->place);
    manifest.parts.back().sha256 = hash_of(*part);
  }
  return manifest;
}

std::span<const std::byte> ModelParts::read_part(std::uint64_t file, std::uint64_t offset,
                                                 std::uint64_t length) const {
  const std::pair wanted(file, offset);
  const auto place = [](const std::unique_ptr<Part>& part) {
    return std::pair(part->place.file, part->place.offset);
  };
  const auto found = std::lower_bound(
      parts_.begin(), parts_.end(), wanted,
      [&](const std::unique_ptr<Part>& part, const auto& value) { return place(part) < value; });
  if (found == parts_.end() || place(*found) != wanted || (*found)->place.length != length) {
    throw InputError("file " + std::to_string(file) + ", offset " + std::to_string(offset) + ", length " +
                         std::to_string(length),
                     "is not a part of the model");
  }
  return places_.files[static_cast<std::size_t>(file)].bytes.subspan(offset, length);
}

}  // namespace zerolock
