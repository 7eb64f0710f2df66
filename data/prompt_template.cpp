#include "data/prompt_template.hpp"

#include <algorithm>
#include <utility>

#include "data/field_name.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::string_view kAnswerField = "answer";

}  // namespace

/// Walks the text once; `section` is where the next piece belongs.
class PromptTemplate::Parser {
 public:
  Parser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  PromptTemplate parse() {
    result_.text_ = std::string(text_);
    while (at_ < text_.size()) {
      const std::string_view two = text_.substr(at_, 2);
      if (two == "{{" || two == "}}") {
        literal_ += two[0];
        at_ += 2;
      } else if (two == "[[") {
        begin_cut();
      } else if (two == "]]" && section_ == Section::kMiddle) {
        flush();
        section_ = Section::kTail;
        at_ += 2;
      } else if (text_[at_] == '{') {
        read_field();
      } else if (text_[at_] == '}') {
        fail("a lone \"}\" (write \"}}\" for a brace)");
      } else {
        literal_ += text_[at_++];
      }
    }
    if (section_ == Section::kMiddle) fail("\"[[\" without \"]]\"");
    flush();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw InputError(where_, reason + " at character " + std::to_string(at_ + 1) + " of the template");
  }

  void flush() {
    if (!literal_.empty()) result_.pieces_.push_back({false, section_, std::exchange(literal_, {})});
  }

  void begin_cut() {
    if (result_.has_cut_mark_) fail("a second \"[[\" (one stretch may be marked for cutting)");
    if (section_ != Section::kHead) fail("\"[[\" behind {answer}");
    flush();
    result_.has_cut_mark_ = true;
    section_ = Section::kMiddle;
    at_ += 2;
  }

  void read_field() {
    const std::size_t close = text_.find_first_of("{}", at_ + 1);
    if (close == std::string_view::npos || text_[close] == '{') {
      fail("\"{\" without \"}\" (write \"{{\" for a brace)");
    }
    std::string name = lower_case(trimmed(text_.substr(at_ + 1, close - at_ - 1)));
    if (name.empty()) fail("a place without a field's name");
    if (name == kAnswerField) {
      begin_answer();
    } else {
      flush();
    }
    result_.pieces_.push_back({true, section_, std::move(name)});
    at_ = close + 1;
  }

  /// Moves the blanks before {answer} from the prompt to the answer: tokenizers join a blank to the word
  /// behind it.
  void begin_answer() {
    if (result_.has_answer_) fail("a second {answer}");
    if (section_ == Section::kMiddle) fail("{answer} inside the stretch marked for cutting");
    result_.has_answer_ = true;
    const std::size_t end = literal_.find_last_not_of(' ');
    const std::size_t kept = end == std::string::npos ? 0 : end + 1;
    std::string blanks = literal_.substr(kept);
    literal_.resize(kept);
    flush();
    section_ = Section::kAnswer;
    literal_ = std::move(blanks);
    flush();
  }

  std::string_view text_;
  std::string_view where_;
  std::size_t at_ = 0;
  Section section_ = Section::kHead;
  std::string literal_;
  PromptTemplate result_;
};

namespace {

const std::string& field_of(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  if (found != fields.end()) return found->second;
  std::string known;
  for (const auto& [key, value] : fields) known += (known.empty() ? "" : ", ") + key;
  throw InputError("the template asks for a field \"" + name +
                   "\", which the row lacks (it has: " + (known.empty() ? "none" : known) + ")");
}

}  // namespace

PromptTemplate PromptTemplate::parse(std::string_view text, std::string_view where) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return Parser(text, where).parse();
}

PromptTemplate::Prompt PromptTemplate::fill(const std::map<std::string, std::string>& fields) const {
  Prompt prompt;
  for (const Piece& piece : pieces_) {
    const std::string& text =
        piece.is_field && piece.section != Section::kAnswer ? field_of(fields, piece.text) : piece.text;
    if (piece.section == Section::kHead) prompt.head += text;
    if (piece.section == Section::kMiddle) prompt.middle += text;
    if (piece.section == Section::kTail) prompt.tail += text;
  }
  return prompt;
}

std::string PromptTemplate::answer(std::string_view value, std::string_view default_lead,
                                   const std::map<std::string, std::string>& fields) const {
  if (!has_answer_) return std::string(default_lead) + std::string(value);
  std::string text;
  for (const Piece& piece : pieces_) {
    if (piece.section != Section::kAnswer) continue;
    if (!piece.is_field) {
      text += piece.text;
    } else {
      text += piece.text == kAnswerField ? std::string(value) : field_of(fields, piece.text);
    }
  }
  return text;
}

std::vector<std::string> PromptTemplate::fields() const {
  std::vector<std::string> names;
  for (const Piece& piece : pieces_) {
    const bool wanted = piece.is_field && piece.text != kAnswerField;
    if (wanted && std::find(names.begin(), names.end(), piece.text) == names.end())
      names.push_back(piece.text);
  }
  return names;
}

}  // namespace zerolock
