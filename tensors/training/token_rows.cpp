#include "tensors/training/token_rows.hpp"

#include <string>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {

TokenIndex::TokenIndex(const std::vector<std::int64_t>& tokens, std::int64_t vocabulary)
    : vocabulary_(vocabulary), restricted_(!tokens.empty()) {
  for (const std::int64_t token : tokens) {
    const auto output = static_cast<std::int64_t>(output_of_token_.size());
    if (!output_of_token_.emplace(token, output).second) {
      throw InputError("restricted head", "token id " + std::to_string(token) + " is given twice");
    }
  }
}

std::int64_t TokenIndex::output_of(std::int64_t token) const {
  if (!restricted_) {
    if (token >= 0 && token < vocabulary_) return token;
    throw InputError("target token " + std::to_string(token),
                     "outside the model's vocabulary of " + std::to_string(vocabulary_));
  }
  const auto found = output_of_token_.find(token);
  if (found != output_of_token_.end()) return found->second;
  throw InputError("target token " + std::to_string(token),
                   "supervised, but not one of the restricted head's " +
                       std::to_string(output_of_token_.size()) + " tokens");
}

std::shared_ptr<const TokenRows> make_token_rows(const ModelFiles& model,
                                                 const std::vector<std::int64_t>& tokens,
                                                 at::ScalarType compute_type,
                                                 const WeightTransform& transform) {
  const MemoryScope scope(MemoryComponent::weights);
  StoredTensor rows = model.head();
  TokenIndex index(tokens, rows.rows());
  if (!tokens.empty()) {
    return std::make_shared<const TokenRows>(
        TokenRows{std::move(index), OutputMatrix(rows, tokens, compute_type)});
  }
  if (transform) rows = transform(rows);
  return std::make_shared<const TokenRows>(TokenRows{std::move(index), OutputMatrix(std::move(rows))});
}

}  // namespace zerolock
