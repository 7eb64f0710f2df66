#pragma once
/// The readout matrix, from normed hidden states to logits, multiplied tile by tile so that it never stands
/// expanded.

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensors/files/stored_tensor.hpp"
#include "tensors/model/linear.hpp"

namespace zerolock {

/// All rows of a stored matrix, or some of them gathered once. Immutable; the scratch makes the difference
/// between threads.
class OutputMatrix {
 public:
  /// Every row: output j is token j.
  explicit OutputMatrix(StoredTensor rows) : stored_(std::move(rows)) {}
  /// The given rows only, in their order, expanded to the compute type. Throws InputError for one outside the
  /// matrix.
  OutputMatrix(const StoredTensor& rows, const std::vector<std::int64_t>& selected,
               at::ScalarType compute_type);

  /// A matrix [outputs, features] of its own, which it shares: what is written to the tensor counts.
  explicit OutputMatrix(at::Tensor rows) : gathered_(std::move(rows)) {}

  [[nodiscard]] std::int64_t outputs() const;
  [[nodiscard]] std::int64_t features() const;
  /// Bytes that it occupies: the stored ones, or those of the gathered rows.
  [[nodiscard]] std::size_t bytes() const;
  /// Whether the rows lie in memory of their own, not in the model's file.
  [[nodiscard]] bool gathered() const { return gathered_.defined(); }

  /// logits [n, outputs] = features [n, features] W^T.
  void multiply(const at::Tensor& features, at::Tensor& logits, ExpansionScratch& scratch) const;
  /// The same for two sets of rows that share a pass over the matrix; the second may be undefined.
  void multiply(const at::Tensor& features, at::Tensor& logits, const at::Tensor& more_features,
                at::Tensor& more_logits, ExpansionScratch& scratch) const;
  /// dfeatures [n, features] = dlogits [n, outputs] W.
  void multiply_back(const at::Tensor& dlogits, at::Tensor& dfeatures, ExpansionScratch& scratch) const;
  /// Calls work(first row, rows [count, features]) for one tile after another; each is valid during its call.
  template <class Work>
  void for_each_tile(ExpansionScratch& scratch, const Work& work) const {
    const std::int64_t step = tile_rows(scratch);
    for (std::int64_t first = 0; first < outputs(); first += step) {
      work(first, tile(first, std::min(step, outputs() - first), scratch));
    }
  }

 private:
  /// Rows of a tile: what fits the scratch as it is after the layers used it, but no trickle.
  [[nodiscard]] std::int64_t tile_rows(const ExpansionScratch& scratch) const;
  [[nodiscard]] at::Tensor tile(std::int64_t first, std::int64_t count, ExpansionScratch& scratch) const;

  StoredTensor stored_;
  at::Tensor gathered_;
};

}  // namespace zerolock
