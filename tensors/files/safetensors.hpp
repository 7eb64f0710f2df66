#pragma once
/// The safetensors format: eight bytes of header length, a JSON header that names tensors, their types,
/// shapes and places, and the tensors' bytes without gaps (https://github.com/huggingface/safetensors).

#include <ATen/ATen.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensors/files/stored_tensor.hpp"

namespace zerolock {

using TensorMap = std::map<std::string, at::Tensor>;
using TextMap = std::map<std::string, std::string>;

/// A mapped safetensors file whose header has been checked from end to end. Immutable and thread-safe; the
/// tensors it hands out keep the mapping alive.
class SafetensorsFile {
 public:
  /// Throws InputError, naming the file and the tensor, for anything that the format forbids: a header longer
  /// than the file, JSON that is broken or names something twice, unknown types, shapes whose size overflows
  /// or disagrees with the offsets, overlaps, gaps, missing or surplus bytes. Nothing the file claims is
  /// allocated before it is checked.
  static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The texts under "__metadata__".
  [[nodiscard]] const TextMap& metadata() const { return metadata_; }
  /// All tensors by name.
  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] bool contains(const std::string& name) const { return tensors_.contains(name); }
  /// Throws InputError if there is no such tensor.
  [[nodiscard]] const StoredTensor& tensor(const std::string& name) const;
  /// All bytes of the file.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  SafetensorsFile() = default;

  std::filesystem::path path_;
  TextMap metadata_;
  std::map<std::string, StoredTensor> tensors_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> mapping_;
};

/// The bytes of a safetensors file. They depend on names, values and metadata only: tensors with larger
/// elements come first (so that every tensor is aligned), then by name; the header is padded with spaces to a
/// multiple of 8. Tensors may live on any device and need not be contiguous; types: float32/64, float16,
/// bfloat16, int64/32, uint8.
std::string serialise_safetensors(const TensorMap& tensors, const TextMap& metadata = {});

/// A tensor that is yet to be made.
struct TensorOutline {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
};

/// Writes the same bytes as the function below for tensors that do not fit into memory together: `make` is
/// asked for one after another, each of the type and shape that its outline has. Throws RunError (naming the
/// file) if it cannot be written.
void write_safetensors(const std::filesystem::path& file,
                       const std::map<std::string, TensorOutline>& outlines,
                       const std::function<at::Tensor(const std::string& name)>& make,
                       const TextMap& metadata = {});

/// Writes the same bytes to a file, one tensor at a time. Replaces an existing file in place: callers that
/// must never leave half a file write to a temporary name and rename. Throws RunError (naming the file) if it
/// cannot be written.
void write_safetensors(const std::filesystem::path& file, const TensorMap& tensors,
                       const TextMap& metadata = {});

}  // namespace zerolock
