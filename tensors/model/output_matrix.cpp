#include "tensors/model/output_matrix.hpp"

#include <algorithm>
#include <string>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {

OutputMatrix::OutputMatrix(const StoredTensor& rows, const std::vector<std::int64_t>& selected,
                           at::ScalarType compute_type) {
  if (selected.empty()) throw InputError("restricted head", "needs at least one token id");
  for (const std::int64_t row : selected) {
    if (row < 0 || row >= rows.rows()) {
      throw InputError("restricted head", "token id " + std::to_string(row) +
                                              " is outside the vocabulary of " + std::to_string(rows.rows()));
    }
  }
  const MemoryScope scope(MemoryComponent::weights);
  gathered_ = rows.expand_selected_rows(selected).to(compute_type);
}

std::int64_t OutputMatrix::outputs() const {
  return gathered() ? gathered_.size(0) : stored_.rows();
}

std::int64_t OutputMatrix::features() const {
  return gathered() ? gathered_.size(1) : stored_.row_elements();
}

std::size_t OutputMatrix::bytes() const {
  return gathered() ? gathered_.nbytes() : stored_.stored_bytes();
}

std::int64_t OutputMatrix::tile_rows(const ExpansionScratch& scratch) const {
  constexpr std::int64_t tile_rows_min = 512;
  return std::min(outputs(), std::max(tile_rows_min, scratch.capacity() / features()));
}

at::Tensor OutputMatrix::tile(std::int64_t first, std::int64_t count, ExpansionScratch& scratch) const {
  return gathered() ? gathered_.narrow(0, first, count) : scratch.expand(stored_, first, count);
}

void OutputMatrix::multiply(const at::Tensor& features, at::Tensor& logits, ExpansionScratch& scratch) const {
  at::Tensor none;
  multiply(features, logits, at::Tensor(), none, scratch);
}

void OutputMatrix::multiply(const at::Tensor& features, at::Tensor& logits, const at::Tensor& more_features,
                            at::Tensor& more_logits, ExpansionScratch& scratch) const {
  const std::int64_t step = tile_rows(scratch);
  for (std::int64_t first = 0; first < outputs(); first += step) {
    const std::int64_t count = std::min(step, outputs() - first);
    const at::Tensor weight = tile(first, count, scratch);
    at::Tensor part = logits.narrow(1, first, count);
    at::mm_out(part, features, weight.t());
    if (more_features.defined()) {
      at::Tensor more = more_logits.narrow(1, first, count);
      at::mm_out(more, more_features, weight.t());
    }
  }
}

void OutputMatrix::multiply_back(const at::Tensor& dlogits, at::Tensor& dfeatures,
                                 ExpansionScratch& scratch) const {
  const std::int64_t step = tile_rows(scratch);
  for (std::int64_t first = 0; first < outputs(); first += step) {
    const std::int64_t count = std::min(step, outputs() - first);
    const at::Tensor weight = tile(first, count, scratch);
    if (first == 0) {
      at::mm_out(dfeatures, dlogits.narrow(1, first, count), weight);
    } else {
      dfeatures.addmm_(dlogits.narrow(1, first, count), weight);
    }
  }
}

}  // namespace zerolock
