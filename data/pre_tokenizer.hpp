#pragma once
/// Cuts normalized text into the words that byte-pair merges never cross.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace zerolock {

/// The word patterns of the model families; each stands for one published regular expression.
enum class WordPattern { Gpt2, Llama3, Qwen2 };

/// The pattern that a regular expression, written exactly as its publisher writes it, stands for.
std::optional<WordPattern> word_pattern_of(std::string_view regular_expression);

/// That expression.
std::string_view regular_expression_of(WordPattern pattern);

/// The words of a text (well-formed UTF-8), in order; together they are the text.
std::vector<std::string_view> split_words(std::string_view text, WordPattern pattern);

struct PatternSplit {
  WordPattern pattern = WordPattern::Gpt2;
};

/// Cuts numbers out of the text, as runs or digit by digit.
struct DigitSplit {
  bool individual = false;
};

/// Writes each byte as one printable character, the alphabet of GPT-2's vocabulary.
struct ByteLevelSplit {
  bool add_prefix_space = false;
  bool use_pattern = true;  // split by WordPattern::Gpt2 first
};

enum class PrependScheme { Always, First, Never };

/// Writes spaces as a visible character, and can begin a word at each.
struct MetaspaceSplit {
  std::string replacement = "\u2581";
  PrependScheme prepend = PrependScheme::Always;
  bool split = true;
};

using PreTokenizerStep = std::variant<PatternSplit, DigitSplit, ByteLevelSplit, MetaspaceSplit>;

/// Steps applied one after another, each to the words of the one before; with none the text is one word.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}
  /// `at_beginning`: the text stands at the beginning of what the user gave (PrependScheme::First asks).
  [[nodiscard]] std::vector<std::string> split(std::string_view text, bool at_beginning) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

/// The characters that stand for the 256 bytes in GPT-2's alphabet: printable Latin-1 for itself, the others
/// from U+0100 on in order.
const std::array<char32_t, 256>& byte_alphabet();
/// The byte a character of the alphabet stands for.
std::optional<std::uint8_t> byte_of(char32_t character);

}  // namespace zerolock
