#pragma once
/// Keys and values of a sequence's earlier rows, for generating text row by row.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace zerolock {

/// One layer's part: rotated keys and values [capacity, key-value width], the first `rows` of them in use.
class LayerCache {
 public:
  /// Appends rows [n, key-value width], growing by doubling.
  void append(const at::Tensor& key, const at::Tensor& value);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// The rows in use; valid until the next append.
  [[nodiscard]] at::Tensor key() const { return key_.narrow(0, 0, rows_); }
  [[nodiscard]] at::Tensor value() const { return value_.narrow(0, 0, rows_); }

 private:
  at::Tensor key_;
  at::Tensor value_;
  std::int64_t rows_ = 0;
};

/// All layers' parts for one sequence.
struct KeyValueCache {
  explicit KeyValueCache(std::int64_t layer_count) : layers(static_cast<std::size_t>(layer_count)) {}
  std::vector<LayerCache> layers;

  /// Rows seen so far.
  [[nodiscard]] std::int64_t rows() const { return layers.empty() ? 0 : layers.front().rows(); }
};

}  // namespace zerolock
