#pragma once
/// Makes small GGUF files for tests, right or wrong ones.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tensors/files_support.hpp"

namespace zerolock::test {

class GgufWriter {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;

  static std::string text(std::string_view value) {
    return raw<std::uint64_t>(value.size()) + std::string(value);
  }

  void add(std::string_view key, std::uint32_t type, std::string_view bytes) {
    metadata_ += text(key) + raw(type) + std::string(bytes);
    ++metadata_count_;
  }
  void add(std::string_view key, std::uint32_t value) { add(key, 4, raw(value)); }
  void add(std::string_view key, float value) { add(key, 6, raw(value)); }
  void add(std::string_view key, bool value) { add(key, 7, raw(static_cast<std::uint8_t>(value))); }
  void add(std::string_view key, const char* value) { add(key, 8, text(value)); }
  template <class Number>
  void add_numbers(std::string_view key, std::uint32_t type, const std::vector<Number>& values) {
    std::string bytes = raw(type) + raw<std::uint64_t>(values.size());
    for (const Number value : values) bytes += raw(value);
    add(key, 9, bytes);
  }
  void add_texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += text(value);
    add(key, 9, bytes);
  }

  /// Sizes in GGUF's order, the row length first. The offset is where the bytes will lie, unless one is
  /// given.
  void add_tensor(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& sizes,
                  const std::string& bytes, std::int64_t offset = -1) {
    tensors_ += text(name) + raw(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) tensors_ += raw(size);
    tensors_ += raw(type) + raw(offset < 0 ? static_cast<std::uint64_t>(data_.size())
                                           : static_cast<std::uint64_t>(offset));
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32, '\0');
    ++tensor_count_;
  }
  /// A float32 tensor.
  void add_tensor(std::string_view name, const at::Tensor& values) {
    const at::Tensor contiguous = values.contiguous();
    std::vector<std::uint64_t> sizes(contiguous.sizes().rbegin(), contiguous.sizes().rend());
    add_tensor(name, 0, sizes, {static_cast<const char*>(contiguous.data_ptr()), contiguous.nbytes()});
  }

  [[nodiscard]] std::string bytes() const {
    std::string header =
        magic + raw(version) + raw(tensor_count_) + raw(metadata_count_) + metadata_ + tensors_;
    header.resize((header.size() + 31) / 32 * 32, '\0');
    return header + data_;
  }

 private:
  std::uint64_t metadata_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace zerolock::test
