#include "tensors/files/model_manifest.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/json_object.hpp"
#include "tensors/files/tensor_places.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

constexpr std::size_t files_max = 4096;
constexpr std::size_t name_bytes_max = 255;
constexpr std::uint64_t file_bytes_max = std::uint64_t{1} << 44U;

/// A text from elsewhere, fit to be shown: escaped, and not at any length.
std::string shown(const std::string& text) {
  return json(text.substr(0, 80)).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string read_hash(const std::string& where, const json& value) {
  constexpr std::size_t digits = 64;
  std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool hex = std::all_of(text.begin(), text.end(),
                               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (text.size() != digits || !hex) throw InputError(where, "must be 64 lower-case hex digits");
  return text;
}

std::uint64_t read_number(const std::string& where, const json& value, std::uint64_t min, std::uint64_t max) {
  const bool number = value.is_number_unsigned();
  if (!number || value.get<std::uint64_t>() < min || value.get<std::uint64_t>() > max) {
    throw InputError(where, "must be an integer from " + std::to_string(min) + " to " + std::to_string(max) +
                                (number ? ", is " + value.dump() : ""));
  }
  return value.get<std::uint64_t>();
}

const json& read_list(const JsonObject& object, const char* key) {
  const json& list = object.value(key);
  if (!list.is_array()) object.refuse(key, "must be a list");
  return list;
}

/// The item of a list, which must be a list of so many values itself.
const json& read_row(const std::string& where, const json& row, std::size_t values) {
  if (!row.is_array() || row.size() != values) {
    throw InputError(where, "must be a list of " + std::to_string(values) + " values");
  }
  return row;
}

/// The name of a file that lies in the model's folder itself.
std::string read_name(const std::string& where, const json& value) {
  if (!value.is_string()) throw InputError(where, "the name must be a text");
  std::string name = value.get<std::string>();
  const bool plain = std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || (c >= 0 && c < ' ') || c == '\x7f';
  });
  if (name.empty() || name.size() > name_bytes_max || name.front() == '.' || !plain) {
    throw InputError(where, shown(name) + " is not the name of a file in a folder");
  }
  return name;
}

std::vector<ModelFileSize> read_files(const JsonObject& object, bool gguf) {
  const json& list = read_list(object, "files");
  if (list.empty() || list.size() > files_max) {
    object.refuse("files", "must be 1 to " + std::to_string(files_max));
  }
  std::vector<ModelFileSize> files;
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = object.where() + ": file " + std::to_string(i);
    const json& row = read_row(where, list[i], 2);
    ModelFileSize file{read_name(where, row[0]), read_number(where + ", size", row[1], 1, file_bytes_max)};
    if (!names.insert(file.name).second) throw InputError(where, shown(file.name) + " is there twice");
    files.push_back(std::move(file));
  }
  if (gguf && (files.size() != 1 || files.front().name != gguf_file_name)) {
    object.refuse("files", std::string("of a GGUF model must be ") + gguf_file_name + " alone");
  }
  if (!gguf && !names.contains("config.json")) object.refuse("files", "lack config.json");
  return files;
}

std::vector<ModelPart> read_parts(const JsonObject& object, const std::vector<ModelFileSize>& files) {
  const json& list = read_list(object, "parts");
  std::vector<ModelPart> parts;
  parts.reserve(list.size());
  std::set<std::uint64_t> begun;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = object.where() + ": part " + std::to_string(i);
    const json& row = read_row(where, list[i], 4);
    ModelPart part;
    part.file = read_number(where + ", file", row[0], 0, files.size() - 1);
    const std::uint64_t size = files[part.file].bytes;
    part.offset = read_number(where + ", offset", row[1], 0, size - 1);
    part.length =
        read_number(where + ", length", row[2], 1, std::min(model_part_bytes_max, size - part.offset));
    part.sha256 = read_hash(where + ", SHA-256", row[3]);
    if (!parts.empty() &&
        (part.file < parts.back().file ||
         (part.file == parts.back().file && part.offset < parts.back().offset + parts.back().length))) {
      throw InputError(where, "overlaps the part before it or should stand before it");
    }
    if (part.offset == 0) begun.insert(part.file);
    parts.push_back(std::move(part));
  }
  if (begun.size() != files.size()) object.refuse("parts", "lack the start of a file");
  return parts;
}

}  // namespace

std::uint64_t ModelManifest::bytes() const {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const ModelPart& part) { return sum + part.length; });
}

std::string ModelManifest::place_of(const ModelPart& part) const {
  return files.at(part.file).name + ", bytes " + std::to_string(part.offset) + " to " +
         std::to_string(part.offset + part.length - 1);
}

ModelManifest merge_model_manifests(const std::string& where, const ModelManifest& left,
                                    const ModelManifest& right) {
  if (left.content_hash != right.content_hash) {
    throw InputError(where, "are of two models, " + left.content_hash + " and " + right.content_hash);
  }
  if (left.gguf != right.gguf || left.files != right.files) {
    throw InputError(where, "are of one model in different files");
  }
  ModelManifest merged{left.content_hash, left.gguf, left.files, {}};
  std::set_union(left.parts.begin(), left.parts.end(), right.parts.begin(), right.parts.end(),
                 std::back_inserter(merged.parts));
  const auto overlap = std::adjacent_find(
      merged.parts.begin(), merged.parts.end(), [](const ModelPart& before, const ModelPart& after) {
        return before.file == after.file && after.offset < before.offset + before.length;
      });
  if (overlap != merged.parts.end()) {
    throw InputError(where, "do not agree on " + merged.place_of(*overlap));
  }
  return merged;
}

std::string model_manifest_text(const ModelManifest& manifest) {
  json files = json::array();
  for (const ModelFileSize& file : manifest.files) files.push_back(json::array({file.name, file.bytes}));
  json parts = json::array();
  for (const ModelPart& part : manifest.parts) {
    parts.push_back(json::array({part.file, part.offset, part.length, part.sha256}));
  }
  return json{{"content_hash", manifest.content_hash},
              {"format", manifest.gguf ? "gguf" : "folder"},
              {"files", std::move(files)},
              {"parts", std::move(parts)}}
      .dump();
}

ModelManifest model_manifest_from_text(const std::string& where, std::string_view text) {
  if (text.size() > model_manifest_text_bytes_max) {
    throw InputError(where, "has " + std::to_string(text.size()) + " bytes; at most " +
                                std::to_string(model_manifest_text_bytes_max) + " are allowed");
  }
  const json document = parse_json_object(where, text);
  for (const auto& [key, value] : document.items()) {
    if (key != "content_hash" && key != "format" && key != "files" && key != "parts") {
      throw InputError(where, shown(key) + " is not part of a model's manifest");
    }
  }
  const JsonObject object(where, document);
  ModelManifest manifest;
  manifest.content_hash = read_hash(where + ": content_hash", object.value("content_hash"));
  const json& format = object.value("format");
  manifest.gguf = format == "gguf";
  if (!manifest.gguf && format != "folder") object.refuse("format", "must be \"folder\" or \"gguf\"");
  manifest.files = read_files(object, manifest.gguf);
  manifest.parts = read_parts(object, manifest.files);
  return manifest;
}

}  // namespace zerolock
