#pragma once
/// Which tokens a readout speaks of, and their rows of the model's readout matrix.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/model/output_matrix.hpp"

namespace zerolock {

/// From token ids to outputs: output j is token j, or the j-th of a list.
class TokenIndex {
 public:
  /// An empty list stands for the whole vocabulary. Throws InputError for a token given twice.
  TokenIndex(const std::vector<std::int64_t>& tokens, std::int64_t vocabulary);

  /// Throws InputError if no output stands for the token.
  [[nodiscard]] std::int64_t output_of(std::int64_t token) const;

 private:
  std::int64_t vocabulary_;
  bool restricted_;
  std::unordered_map<std::int64_t, std::int64_t> output_of_token_;
};

/// Immutable; heads of one stage share it.
struct TokenRows {
  TokenIndex index;
  OutputMatrix matrix;  // [outputs, width]
};

/// The readout matrix's rows of the given tokens, gathered into memory of their own, or all of them as they
/// lie in the file (or as `transform` stores them). Charged to "weights". Throws InputError for a token that
/// is outside the vocabulary or comes twice.
std::shared_ptr<const TokenRows> make_token_rows(const ModelFiles& model,
                                                 const std::vector<std::int64_t>& tokens,
                                                 at::ScalarType compute_type,
                                                 const WeightTransform& transform = {});

}  // namespace zerolock
