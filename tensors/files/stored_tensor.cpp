#include "tensors/files/stored_tensor.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/block_formats.hpp"
#include "tensors/files/mapped_file.hpp"

namespace zerolock {
namespace {

/// Of a mapped file, that a conversion has in memory at once.
constexpr std::int64_t source_bytes_kept = std::int64_t{8} << 20;

struct FormatFacts {
  std::string_view name;
  std::int64_t elements;
  std::size_t bytes;
};

const FormatFacts& facts(StorageFormat format) {
  static constexpr FormatFacts table[] = {
      {"f32", 1, 4},    {"f16", 1, 2},    {"bf16", 1, 2},     {"f64", 1, 8},      {"i64", 1, 8},
      {"i32", 1, 4},    {"u8", 1, 1},     {"q8_0", 32, 34},   {"q4_0", 32, 18},   {"q4_1", 32, 20},
      {"q5_0", 32, 22}, {"q5_1", 32, 24}, {"q4_k", 256, 144}, {"q6_k", 256, 210},
  };
  static_assert(std::size(table) == static_cast<std::size_t>(StorageFormat::q6_k) + 1);
  return table[static_cast<std::size_t>(format)];
}

}  // namespace

std::optional<at::ScalarType> scalar_type_of(StorageFormat format) {
  switch (format) {
    case StorageFormat::f32:
      return at::kFloat;
    case StorageFormat::f16:
      return at::kHalf;
    case StorageFormat::bf16:
      return at::kBFloat16;
    case StorageFormat::f64:
      return at::kDouble;
    case StorageFormat::i64:
      return at::kLong;
    case StorageFormat::i32:
      return at::kInt;
    case StorageFormat::u8:
      return at::kByte;
    default:
      return std::nullopt;
  }
}

std::string_view to_string(StorageFormat format) {
  return facts(format).name;
}
std::int64_t block_elements(StorageFormat format) {
  return facts(format).elements;
}
std::size_t block_bytes(StorageFormat format) {
  return facts(format).bytes;
}

StorageFormat storage_format_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return StorageFormat::f32;
    case at::kHalf:
      return StorageFormat::f16;
    case at::kBFloat16:
      return StorageFormat::bf16;
    case at::kDouble:
      return StorageFormat::f64;
    case at::kLong:
      return StorageFormat::i64;
    case at::kInt:
      return StorageFormat::i32;
    case at::kByte:
      return StorageFormat::u8;
    default:
      throw std::logic_error(std::string("no storage format for ") + c10::toString(type));
  }
}

StoredTensor::StoredTensor(std::string name, StorageFormat format, std::vector<std::int64_t> shape,
                           const std::byte* bytes, std::shared_ptr<const void> owner)
    : name_(std::move(name)),
      format_(format),
      shape_(std::move(shape)),
      bytes_(bytes),
      owner_(std::move(owner)) {
  for (const std::int64_t size : shape_) ZEROLOCK_INVARIANT(size >= 0, "sizes are not negative");
  ZEROLOCK_INVARIANT(bytes_ != nullptr, "a stored tensor has bytes");
  ZEROLOCK_INVARIANT(row_elements() % block_elements(format_) == 0, "blocks do not cross rows");
}

StoredTensor::StoredTensor(std::string name, StorageFormat format, std::vector<std::int64_t> shape,
                           const std::byte* bytes, const std::shared_ptr<const MappedFile>& file)
    : StoredTensor(std::move(name), format, std::move(shape), bytes, std::shared_ptr<const void>(file)) {
  file_ = file.get();
}

std::int64_t StoredTensor::elements() const {
  return std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t StoredTensor::stored_bytes() const {
  return static_cast<std::size_t>(elements() / block_elements(format_)) * block_bytes(format_);
}

std::int64_t StoredTensor::row_elements() const {
  return shape_.empty() ? 1 : shape_.back();
}

std::int64_t StoredTensor::rows() const {
  if (shape_.size() < 2) return 1;
  return std::accumulate(shape_.begin(), shape_.end() - 1, std::int64_t{1}, std::multiplies<>());
}

void StoredTensor::expand_rows(std::int64_t first, std::int64_t count, float* destination) const {
  ZEROLOCK_INVARIANT(defined() && first >= 0 && count >= 0 && first + count <= rows(),
                     "rows lie in the tensor");
  const std::int64_t length = row_elements();
  const std::size_t row_bytes =
      static_cast<std::size_t>(length / block_elements(format_)) * block_bytes(format_);
  if (row_order_ == nullptr) {
    expand_blocks(format_, bytes_ + static_cast<std::size_t>(first) * row_bytes, count * length, destination);
    return;
  }
  for (std::int64_t row = 0; row < count; ++row) {
    const auto source = static_cast<std::size_t>((*row_order_)[static_cast<std::size_t>(first + row)]);
    expand_blocks(format_, bytes_ + source * row_bytes, length, destination + row * length);
  }
}

at::Tensor StoredTensor::expand(at::ScalarType type) const {
  ZEROLOCK_INVARIANT(defined(), "only a tensor with bytes can be expanded");
  const std::optional<at::ScalarType> plain = scalar_type_of(format_);
  if (plain && row_order_ == nullptr) {
    // Straight from the stored type, so that 64-bit values do not pass through float32. The bytes are only
    // read.
    const at::Tensor view =
        at::from_blob(const_cast<std::byte*>(bytes_), shape_, at::TensorOptions().dtype(*plain));
    return view.to(at::TensorOptions().dtype(type), /*non_blocking=*/false, /*copy=*/true);
  }
  at::Tensor result = at::empty(shape_, at::TensorOptions().dtype(at::kFloat));
  expand_rows(0, rows(), result.data_ptr<float>());
  return result.to(type);
}

at::Tensor StoredTensor::expand_selected_rows(const std::vector<std::int64_t>& indices) const {
  at::Tensor result = at::empty({static_cast<std::int64_t>(indices.size()), row_elements()},
                                at::TensorOptions().dtype(at::kFloat));
  float* destination = result.data_ptr<float>();
  for (const std::int64_t index : indices) {
    expand_rows(index, 1, destination);
    destination += row_elements();
  }
  return result;
}

StoredTensor StoredTensor::with_row_order(std::shared_ptr<const std::vector<std::int64_t>> order) const {
  ZEROLOCK_INVARIANT(order != nullptr && static_cast<std::int64_t>(order->size()) == rows(),
                     "one source for each row");
  ZEROLOCK_INVARIANT(row_order_ == nullptr, "a row order is set once");
  for (const std::int64_t row : *order)
    ZEROLOCK_INVARIANT(row >= 0 && row < rows(), "sources lie in the tensor");
  StoredTensor reordered = *this;
  reordered.row_order_ = std::move(order);
  return reordered;
}

StoredTensor StoredTensor::renamed(std::string name) const {
  StoredTensor other = *this;
  other.name_ = std::move(name);
  return other;
}

void StoredTensor::release() const {
  if (file_ != nullptr) file_->release({bytes_, stored_bytes()});
}

StoredTensor StoredTensor::converted(StorageFormat format) const {
  ZEROLOCK_INVARIANT(defined(), "only a tensor with bytes can be converted");
  const std::int64_t length = row_elements();
  if (!can_quantise_to(format)) {
    throw InputError("tensor " + name_, "cannot be converted to " + std::string(to_string(format)) +
                                            " (possible: f32, bf16, q8_0, q4_1)");
  }
  if (length % block_elements(format) != 0) {
    throw InputError("tensor " + name_, "its rows of " + std::to_string(length) +
                                            " values cannot be stored as " + std::string(to_string(format)) +
                                            ", which packs " + std::to_string(block_elements(format)));
  }
  const std::size_t row_bytes =
      static_cast<std::size_t>(length / block_elements(format)) * block_bytes(format);
  // A LibTorch tensor holds the bytes, so that they are charged to the stage that asked for them.
  const auto memory = std::make_shared<at::Tensor>(
      at::empty({static_cast<std::int64_t>(row_bytes) * rows()}, at::TensorOptions().dtype(at::kByte)));
  auto* destination = reinterpret_cast<std::byte*>(memory->data_ptr<std::uint8_t>());
  std::vector<float> row(static_cast<std::size_t>(length));
  const std::int64_t source_row_bytes =
      length / block_elements(format_) * static_cast<std::int64_t>(block_bytes(format_));
  const std::int64_t rows_kept =
      std::max<std::int64_t>(1, source_bytes_kept / std::max<std::int64_t>(1, source_row_bytes));
  for (std::int64_t r = 0; r < rows(); ++r, destination += row_bytes) {
    expand_rows(r, 1, row.data());
    quantise_blocks(format, row.data(), length, destination);
    if ((r + 1) % rows_kept == 0) release();
  }
  release();
  const auto* bytes = reinterpret_cast<const std::byte*>(memory->data_ptr<std::uint8_t>());
  return {name_, format, shape_, bytes, memory};
}

StoredTensor stored(std::string name, const at::Tensor& tensor) {
  ZEROLOCK_INVARIANT(tensor.defined() && tensor.is_contiguous() && tensor.device().is_cpu(),
                     "a stored tensor wraps contiguous CPU memory");
  const auto owner = std::make_shared<at::Tensor>(tensor.detach());
  static constexpr std::byte nothing{};  // LibTorch gives tensors without elements no address
  const auto* bytes = tensor.numel() == 0 ? &nothing : static_cast<const std::byte*>(owner->data_ptr());
  return {std::move(name), storage_format_of(tensor.scalar_type()), tensor.sizes().vec(), bytes, owner};
}

}  // namespace zerolock
