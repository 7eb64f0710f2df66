#pragma once
/// How a row's fields become a prompt and an answer.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

/// A text with {field} places, e.g. "Article: {title} {description}\nTopic:". "{{" and "}}" stand for braces.
/// Exactly one stretch may be marked "[[" … "]]": where a prompt is too long, tokens are cut at the end of
/// that stretch, and without one at the start of the prompt.
class PromptTemplate {
 public:
  /// Throws InputError naming `where` for an unknown escape, an unclosed brace, or two cut marks.
  static PromptTemplate parse(std::string_view text, std::string_view where);

  /// A prompt in three pieces; only `middle` may be shortened unless it is empty.
  struct Prompt {
    std::string head;
    std::string middle;
    std::string tail;
  };
  /// Throws InputError naming the field that the row lacks.
  [[nodiscard]] Prompt fill(const std::map<std::string, std::string>& fields) const;
  [[nodiscard]] std::vector<std::string> fields() const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Piece {
    bool is_field = false;
    int section = 0;  // 0 head, 1 middle, 2 tail
    std::string text;
  };
  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace zerolock
