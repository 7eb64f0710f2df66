#include "data/pre_tokenizer.hpp"

#include <algorithm>

#include "data/text_normalizer.hpp"
#include "data/unicode.hpp"

namespace zerolock {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool is_line_break(char32_t c) {
  return c == '\r' || c == '\n';
}
/// `[^\s\p{L}\p{N}]`
bool is_other(char32_t c) {
  return !is_white_space(c) && !is_letter(c) && !is_number(c);
}

/// Reads a text character by character. Positions are byte offsets.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  [[nodiscard]] bool ended(std::size_t at) const { return at >= text_.size(); }

  /// The position behind the longest run, from `at` on, of at most `limit` characters that fulfil a
  /// condition.
  template <class Condition>
  [[nodiscard]] std::size_t skip(std::size_t at, Condition condition,
                                 std::size_t limit = std::string::npos) const {
    for (std::size_t count = 0; count < limit && !ended(at); ++count) {
      std::size_t next = at;
      if (!condition(next_code_point(text_, next))) break;
      at = next;
    }
    return at;
  }

  template <class Condition>
  [[nodiscard]] bool holds(std::size_t at, Condition condition) const {
    return !ended(at) && condition(next_code_point(text_, at));
  }

  /// ` ?X+` for a condition X: the position behind it, or `at` if it does not match.
  template <class Condition>
  [[nodiscard]] std::size_t skip_with_space(std::size_t at, Condition condition) const {
    const std::size_t begin = !ended(at) && text_[at] == ' ' ? at + 1 : at;
    const std::size_t end = skip(begin, condition);
    return end > begin ? end : at;
  }

  /// `\s+(?!\S)|\s+`: a run of white space leaves its last character to the word that follows, unless it is
  /// all there is.
  [[nodiscard]] std::size_t skip_white_space(std::size_t at) const {
    const std::size_t end = skip(at, is_white_space);
    if (ended(end)) return end;
    std::size_t last = at;
    for (std::size_t next = at; next < end;) {
      last = next;
      static_cast<void>(next_code_point(text_, next));
    }
    return last > at ? last : end;
  }

  /// `\s*[\r\n]+`: white space up to the last line break of its run; `at` if there is none.
  [[nodiscard]] std::size_t skip_through_line_breaks(std::size_t at) const {
    const std::string_view run = text_.substr(at, skip(at, is_white_space) - at);
    const std::size_t last = run.find_last_of("\r\n");
    return last == std::string_view::npos ? at : at + last + 1;
  }

  /// `'s|'t|'re|'ve|'m|'ll|'d`: the position behind it, or `at`.
  [[nodiscard]] std::size_t skip_contraction(std::size_t at, bool any_case) const {
    if (text_[at] != '\'') return at;
    const std::string_view rest = text_.substr(at + 1);
    for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      if (begins_with(rest, ending, any_case)) return at + 1 + ending.size();
    }
    // U+017F, the long s, folds to s.
    if (any_case && rest.substr(0, 2) == "\u017F") return at + 3;
    return at;
  }

 private:
  static bool begins_with(std::string_view text, std::string_view ending, bool any_case) {
    if (text.size() < ending.size()) return false;
    return std::equal(ending.begin(), ending.end(), text.begin(), [any_case](char wanted, char found) {
      return wanted == found || (any_case && wanted == (found | 0x20) && found >= 'A' && found <= 'Z');
    });
  }

  std::string_view text_;
};

/// Alternatives are tried in the expression's order; the first that matches wins.
std::size_t end_of_gpt2_word(const Scanner& scanner, std::size_t at) {
  std::size_t end = scanner.skip_contraction(at, false);
  if (end == at) end = scanner.skip_with_space(at, is_letter);
  if (end == at) end = scanner.skip_with_space(at, is_number);
  if (end == at) end = scanner.skip_with_space(at, is_other);
  if (end == at) end = scanner.skip_white_space(at);
  return end;
}

std::size_t end_of_llama3_word(const Scanner& scanner, std::size_t at, std::size_t digits) {
  std::size_t end = scanner.skip_contraction(at, true);
  if (end > at) return end;
  // `[^\r\n\p{L}\p{N}]?\p{L}+`
  const auto may_lead = [](char32_t c) { return !is_line_break(c) && !is_letter(c) && !is_number(c); };
  const std::size_t letters = scanner.skip(at, may_lead, 1);
  if (scanner.holds(letters, is_letter)) return scanner.skip(letters, is_letter);
  end = scanner.skip(at, is_number, digits);
  if (end > at) return end;
  end = scanner.skip_with_space(at, is_other);
  if (end > at) return scanner.skip(end, is_line_break);
  end = scanner.skip_through_line_breaks(at);
  if (end == at) end = scanner.skip_white_space(at);
  return end;
}

std::vector<std::string_view> split_digits(std::string_view text, bool individual) {
  const Scanner scanner(text);
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = scanner.skip(at, is_number, individual ? 1 : std::string::npos);
    if (end == at) end = scanner.skip(at, [](char32_t c) { return !is_number(c); });
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// Every occurrence of the delimiter begins a word.
std::vector<std::string_view> split_before(std::string_view text, std::string_view delimiter) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find(delimiter, at + 1), text.size());
    words.push_back(text.substr(at, next - at));
    at = next;
  }
  return words;
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string result;
  result.reserve(bytes.size() + bytes.size() / 2);
  for (const char byte : bytes) append_code_point(result, byte_alphabet()[static_cast<std::uint8_t>(byte)]);
  return result;
}

/// Applies one step to one word of the step before and appends what comes out.
struct SplitWord {
  std::string_view word;
  bool at_beginning;
  std::vector<std::string>& out;

  void operator()(const PatternSplit& step) const { append(split_words(word, step.pattern)); }
  void operator()(const DigitSplit& step) const { append(split_digits(word, step.individual)); }
  void operator()(const ByteLevelSplit& step) const {
    const bool prefix = step.add_prefix_space && !word.starts_with(' ');
    const std::string text = prefix ? " " + std::string(word) : std::string(word);
    if (!step.use_pattern) {
      out.push_back(in_byte_alphabet(text));
      return;
    }
    for (const std::string_view part : split_words(text, WordPattern::Gpt2))
      out.push_back(in_byte_alphabet(part));
  }
  void operator()(const MetaspaceSplit& step) const {
    std::string text = replace_all(word, " ", step.replacement);
    const bool prepend =
        step.prepend == PrependScheme::Always || (step.prepend == PrependScheme::First && at_beginning);
    if (prepend && !text.starts_with(step.replacement)) text.insert(0, step.replacement);
    if (step.split) {
      append(split_before(text, step.replacement));
    } else {
      out.push_back(std::move(text));
    }
  }

  void append(const std::vector<std::string_view>& words) const {
    out.insert(out.end(), words.begin(), words.end());
  }
};

}  // namespace

std::optional<WordPattern> word_pattern_of(std::string_view regular_expression) {
  if (regular_expression == kGpt2) return WordPattern::Gpt2;
  if (regular_expression == kLlama3) return WordPattern::Llama3;
  if (regular_expression == kQwen2) return WordPattern::Qwen2;
  return std::nullopt;
}

std::string_view regular_expression_of(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::Gpt2:
      return kGpt2;
    case WordPattern::Llama3:
      return kLlama3;
    case WordPattern::Qwen2:
      return kQwen2;
  }
  return kGpt2;
}

std::vector<std::string_view> split_words(std::string_view text, WordPattern pattern) {
  const Scanner scanner(text);
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = pattern == WordPattern::Gpt2
                                ? end_of_gpt2_word(scanner, at)
                                : end_of_llama3_word(scanner, at, pattern == WordPattern::Llama3 ? 3 : 1);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> PreTokenizer::split(std::string_view text, bool at_beginning) const {
  if (text.empty()) return {};
  std::vector<std::string> words = {std::string(text)};
  for (const PreTokenizerStep& step : steps_) {
    std::vector<std::string> finer;
    finer.reserve(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::visit(SplitWord{words[i], at_beginning && i == 0, finer}, step);
    }
    words = std::move(finer);
  }
  return words;
}

const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> characters{};
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      characters[byte] = printable ? byte : next++;
    }
    return characters;
  }();
  return alphabet;
}

std::optional<std::uint8_t> byte_of(char32_t character) {
  // The 68 bytes that are not printable stand at U+0100 to U+0143.
  static const std::array<std::int16_t, 0x144> bytes = [] {
    std::array<std::int16_t, 0x144> table{};
    table.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte)
      table[byte_alphabet()[byte]] = static_cast<std::int16_t>(byte);
    return table;
  }();
  if (character >= bytes.size() || bytes[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(bytes[character]);
}

}  // namespace zerolock
