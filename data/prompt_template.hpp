#pragma once
/// How a row's fields become a prompt and an answer.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

/// A text with {field} places, e.g. "Article: [[{title} {description}]]\nTopic:". Field names are compared in
/// lower case. "{{" and "}}" stand for braces.
///
/// One stretch may be marked "[[" … "]]": where a prompt is too long, tokens are cut at the end of that
/// stretch, and without a mark at the start of the prompt.
///
/// The place {answer} may stand once, behind any marked stretch: what follows it, and the blanks right before
/// it, belong to the answer and are learned ("Topic: {answer}." teaches " World."). Without it the answer of
/// a labelled row is a blank and the label, and that of a completion row is the completion as it stands.
///
/// One line break at the very end of the text is dropped, because editors put it there.
class PromptTemplate {
 public:
  /// Throws InputError naming `where` and the column for an unclosed or lone brace, an empty name, a second
  /// cut mark or a second {answer}.
  static PromptTemplate parse(std::string_view text, std::string_view where);

  /// A prompt in three pieces; only `middle` may be shortened unless it is empty.
  struct Prompt {
    std::string head;
    std::string middle;
    std::string tail;
  };
  /// Keys of `fields` are in lower case. Throws InputError naming the field that the row lacks.
  [[nodiscard]] Prompt fill(const std::map<std::string, std::string>& fields) const;
  /// The text to learn for an answer; `default_lead` comes before it where the template has no {answer}.
  /// Throws InputError naming the field that the row lacks.
  [[nodiscard]] std::string answer(std::string_view value, std::string_view default_lead,
                                   const std::map<std::string, std::string>& fields) const;
  /// The same for a class name alone: what `labels` are ranked by. Throws InputError where the answer part of
  /// the template holds further fields.
  [[nodiscard]] std::string class_answer(std::string_view label) const { return answer(label, " ", {}); }

  /// Names of the fields it needs (without `answer`), each once, in order.
  [[nodiscard]] std::vector<std::string> fields() const;
  [[nodiscard]] bool has_cut_mark() const { return has_cut_mark_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  enum class Section { kHead, kMiddle, kTail, kAnswer };
  struct Piece {
    bool is_field = false;
    Section section = Section::kHead;
    std::string text;  // the field's name, or the text itself
  };
  class Parser;

  std::string text_;
  std::vector<Piece> pieces_;
  bool has_cut_mark_ = false;
  bool has_answer_ = false;
};

}  // namespace zerolock
