#pragma once
/// Tokens that stand beside a vocabulary and are found in the text before anything else is done to it.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text_normalizer.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // left out of decoded text on request
  bool normalized = false;   // looked for after the text was normalized, in normalized form
  bool single_word = false;  // only where no word character stands next to it
  bool strips_left = false;  // takes the white space before it along
  bool strips_right = false;
};

/// A stretch of text: a token, or text without one.
struct TextSegment {
  std::optional<TokenId> token;
  std::string_view text;
};

/// Finds added tokens as Hugging Face's libraries do: from left to right, the longest of those that begin at
/// a place.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer& normalizer);

  /// Splits by the tokens that are matched before normalization; segments are never empty.
  [[nodiscard]] std::vector<TextSegment> split_raw(std::string_view text) const { return split(text, raw_); }
  /// Splits normalized text by the tokens that are matched after normalization.
  [[nodiscard]] std::vector<TextSegment> split_normalized(std::string_view text) const {
    return split(text, normalized_);
  }

  /// Null if there is none.
  [[nodiscard]] const AddedToken* find(TokenId id) const;
  [[nodiscard]] const AddedToken* find(std::string_view content) const;
  [[nodiscard]] const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  struct Pattern {
    std::string text;
    std::size_t token;  // index into tokens_
  };
  /// Patterns by their first byte, longer ones first.
  using Patterns = std::array<std::vector<Pattern>, 256>;

  [[nodiscard]] std::vector<TextSegment> split(std::string_view text, const Patterns& patterns) const;
  static const Pattern* match(std::string_view text, std::size_t at, const Patterns& patterns);

  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, std::size_t> by_id_;
  std::unordered_map<std::string, std::size_t> by_content_;
  Patterns raw_;
  Patterns normalized_;
};

}  // namespace zerolock
