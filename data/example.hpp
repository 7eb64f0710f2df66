#pragma once
/// One tokenised row of a data set.

#include <cstddef>
#include <optional>
#include <vector>

#include "data/tokenizer.hpp"

namespace zerolock {

/// Tokens begin..end-1 of an example.
struct TokenSpan {
  std::size_t begin = 0;
  std::size_t end = 0;  // exclusive

  constexpr auto operator<=>(const TokenSpan&) const = default;
};

/// Token ids of one sequence and which of them are learned. The spans ascend, do not touch and lie within the
/// tokens; everything outside them is prompt. A supervised token at position 0 is one that nothing predicts.
struct Example {
  std::vector<TokenId> tokens;
  std::vector<TokenSpan> supervised;
  std::size_t source_line = 0;       // 1-based line of the file where the row begins
  std::optional<std::size_t> label;  // index into Dataset::labels, for labelled rows

  /// Position of the first supervised token, which is the length of the prompt; tokens.size() if there is
  /// none.
  [[nodiscard]] std::size_t answer_begin() const {
    return supervised.empty() ? tokens.size() : supervised.front().begin;
  }
};

}  // namespace zerolock
