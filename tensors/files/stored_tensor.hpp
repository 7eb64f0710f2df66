#pragma once
/// A weight in the format in which it lies in its file, and its expansion into a matrix that can be
/// multiplied.

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

class MappedFile;

/// Element or block formats, with GGUF's meaning for the quantised ones.
enum class StorageFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i64,
  i32,
  u8,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q6_k
};
std::string_view to_string(StorageFormat format);
/// Elements that one block holds (1 for plain formats, 32 or 256 for the quantised ones) and the block's
/// bytes.
std::int64_t block_elements(StorageFormat format);
std::size_t block_bytes(StorageFormat format);
/// The LibTorch type whose values lie in memory as a plain format stores them; none for the quantised
/// formats.
std::optional<at::ScalarType> scalar_type_of(StorageFormat format);
/// The plain format of a LibTorch type. Throws std::logic_error for types that have none.
StorageFormat storage_format_of(at::ScalarType type);

/// A read-only tensor over bytes that it keeps alive, usually a mapped file: stages and processes of one
/// machine share its pages. Cheap to copy. Row-major; quantised blocks run along the last dimension.
class StoredTensor {
 public:
  StoredTensor() = default;
  /// `owner` keeps `bytes` alive. Throws std::logic_error unless size and shape agree.
  StoredTensor(std::string name, StorageFormat format, std::vector<std::int64_t> shape,
               const std::byte* bytes, std::shared_ptr<const void> owner);
  /// The same for bytes of a mapped file.
  StoredTensor(std::string name, StorageFormat format, std::vector<std::int64_t> shape,
               const std::byte* bytes, const std::shared_ptr<const MappedFile>& file);

  [[nodiscard]] bool defined() const { return bytes_ != nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] StorageFormat format() const { return format_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::size_t stored_bytes() const;
  [[nodiscard]] const std::byte* data() const { return bytes_; }
  /// Whether row i of the tensor is another row of the bytes: data() is then not the matrix.
  [[nodiscard]] bool has_row_order() const { return row_order_ != nullptr; }
  /// Rows and row length of the tensor seen as a matrix (a vector is one row).
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t row_elements() const;

  /// Expands rows first..first+count-1 into `destination`, contiguous CPU float32 [count, row_elements]. No
  /// allocation. Rows are taken through the row order, if one is set.
  void expand_rows(std::int64_t first, std::int64_t count, float* destination) const;
  /// The whole tensor in its shape, in a new tensor of the given type (float32, float64, bfloat16).
  [[nodiscard]] at::Tensor expand(at::ScalarType type = at::kFloat) const;
  /// The given rows, in their order: [indices, row_elements], float32.
  [[nodiscard]] at::Tensor expand_selected_rows(const std::vector<std::int64_t>& indices) const;

  /// The same bytes with row i read from row order[i]: undoes GGUF's interleaving of rotary pairs at no cost.
  [[nodiscard]] StoredTensor with_row_order(std::shared_ptr<const std::vector<std::int64_t>> order) const;
  /// The same tensor under another name.
  [[nodiscard]] StoredTensor renamed(std::string name) const;
  /// Takes the bytes out of this process's memory if they lie in a mapped file; they come back when they are
  /// next read. For whoever has read a tensor once and keeps something smaller.
  void release() const;
  /// A copy of the values in another format, in memory of its own (q8_0, q4_1, bf16, f32). Bytes of a mapped
  /// file are released on the way, so that no more than a few of them stand beside the copy. Throws
  /// InputError if the row length is not a multiple of the format's block.
  [[nodiscard]] StoredTensor converted(StorageFormat format) const;

 private:
  std::string name_;
  StorageFormat format_ = StorageFormat::f32;
  std::vector<std::int64_t> shape_;
  const std::byte* bytes_ = nullptr;
  std::shared_ptr<const void> owner_;
  const MappedFile* file_ = nullptr;  // the owner, if it is a mapped file
  std::shared_ptr<const std::vector<std::int64_t>> row_order_;
};

/// Wraps a contiguous CPU tensor (float32, float64, float16, bfloat16, int64, int32, uint8) without copying
/// it.
StoredTensor stored(std::string name, const at::Tensor& tensor);

}  // namespace zerolock
