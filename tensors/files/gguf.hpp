#pragma once
/// The GGUF format of llama.cpp: typed metadata (among it the tokenizer) and named, mostly block-quantised
/// tensors in one file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tensors/files/stored_tensor.hpp"

namespace zerolock {

/// A metadata value. Integers of every width become int64, both float widths double, booleans bool.
using GgufValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

/// A mapped GGUF file, versions 2 and 3, little-endian. Names and row order are the file's own; ModelFiles
/// presents them as Hugging Face's. Immutable and thread-safe; the tensors it hands out keep the mapping
/// alive.
class GgufFile {
 public:
  /// Throws InputError, naming the file and the key or tensor with its type: wrong magic or version, data
  /// that ends early, unknown element types, sizes that overflow or lead out of the file. Every length is
  /// checked against the bytes that are there before memory is allocated for it.
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool has_metadata(const std::string& key) const { return metadata_.contains(key); }
  [[nodiscard]] const std::map<std::string, GgufValue>& metadata() const { return metadata_; }

  // Each throws InputError (naming file and key) if the key is missing or holds another kind of value. A
  // single value is not a list of one; arrays of booleans count as integers.
  [[nodiscard]] bool metadata_bool(const std::string& key) const;
  [[nodiscard]] std::int64_t metadata_integer(const std::string& key) const;
  /// A float, or an integer converted to one.
  [[nodiscard]] double metadata_float(const std::string& key) const;
  [[nodiscard]] const std::string& metadata_string(const std::string& key) const;
  [[nodiscard]] const std::vector<std::int64_t>& metadata_integers(const std::string& key) const;
  [[nodiscard]] const std::vector<double>& metadata_floats(const std::string& key) const;
  [[nodiscard]] const std::vector<std::string>& metadata_strings(const std::string& key) const;
  // The same, with nothing for a missing key (still an error for another kind of value).
  [[nodiscard]] std::optional<bool> optional_bool(const std::string& key) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(const std::string& key) const;
  [[nodiscard]] std::optional<double> optional_float(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> optional_string(const std::string& key) const;

  /// All tensors by their GGUF names ("blk.0.attn_q.weight"), shapes in row-major order (GGUF's reversed).
  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  /// All bytes of the file.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  GgufFile() = default;

  std::filesystem::path path_;
  std::map<std::string, GgufValue> metadata_;
  std::map<std::string, StoredTensor> tensors_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> mapping_;
};

}  // namespace zerolock
