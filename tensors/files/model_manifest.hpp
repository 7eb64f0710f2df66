#pragma once
/// What of a model's files a device needs, in parts with checksums, and its text form for the way there.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

inline constexpr std::uint64_t model_part_bytes_max = std::uint64_t{4} << 20U;
/// The longest text of a manifest: the parts of more than 2 TiB.
inline constexpr std::size_t model_manifest_text_bytes_max = std::size_t{64} << 20U;

/// A file of the model: its name within the model's folder, and its size.
struct ModelFileSize {
  std::string name;
  std::uint64_t bytes = 0;

  bool operator==(const ModelFileSize&) const = default;
};

/// Bytes offset..offset+length-1 of a file.
struct ModelPart {
  std::uint64_t file = 0;  // index into the manifest's files
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // 1 to model_part_bytes_max
  std::string sha256;        // 64 lower-case hex digits

  auto operator<=>(const ModelPart&) const = default;
};

/// The files that opening a model reads, and those of their parts that one stage needs. The parts of a model
/// are cut alike for all stages.
struct ModelManifest {
  std::string content_hash;  // ModelFiles::content_hash of the whole model
  bool gguf = false;         // one GGUF file, or the files of a Hugging Face folder
  std::vector<ModelFileSize> files;
  std::vector<ModelPart> parts;  // by file and offset, without overlap; among them the start of every file

  bool operator==(const ModelManifest&) const = default;

  /// Sum of the parts' lengths.
  [[nodiscard]] std::uint64_t bytes() const;
  /// "model.safetensors, bytes 4096 to 8191", for messages.
  [[nodiscard]] std::string place_of(const ModelPart& part) const;
};

/// What two stages of one device need together. Throws InputError that begins with `where` if the manifests
/// are of different models or files, or cut or hash them differently.
ModelManifest merge_model_manifests(const std::string& where, const ModelManifest& left,
                                    const ModelManifest& right);

/// One line of JSON.
std::string model_manifest_text(const ModelManifest& manifest);

/// Reads that text, which may come from anybody. Throws InputError that begins with `where` and names the
/// first thing wrong: a text too long, broken JSON, missing or unknown keys, names that lead out of a folder,
/// sizes beyond any file system, parts outside their file, too long, out of order or over one another.
ModelManifest model_manifest_from_text(const std::string& where, std::string_view text);

}  // namespace zerolock
