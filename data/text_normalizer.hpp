#pragma once
/// What a tokenizer does to text before it splits it.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/unicode.hpp"

namespace zerolock {

/// Puts a prefix before a text that is not empty.
struct PrependText {
  std::string prefix;
};

/// Replaces every occurrence of a string.
struct ReplaceText {
  std::string from;
  std::string to;
};

using NormalizerStep = std::variant<PrependText, ReplaceText, NormalizationForm>;

/// Steps applied one after another; with none the text stays as it is.
class TextNormalizer {
 public:
  TextNormalizer() = default;
  explicit TextNormalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}
  /// Takes and returns well-formed UTF-8.
  [[nodiscard]] std::string apply(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

/// The text with every occurrence of `from`, which is not empty, replaced from left to right.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace zerolock
