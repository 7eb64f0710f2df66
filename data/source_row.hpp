#pragma once
/// A row of a data file as it was read, before prompt and tokenizer.

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat_template.hpp"

namespace zerolock {

/// Fields for a prompt and what to answer.
struct PromptRow {
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, in the file's order
  std::string answer;                                       // a class's name or number, or a free text
  bool is_class = false;
};

/// A text to learn as a whole.
struct TextRow {
  std::string text;
};

/// A conversation.
struct ChatRow {
  std::vector<ChatMessage> messages;
};

/// A row that cannot be used, and the reason without its place.
struct BrokenRow {
  std::string reason;
};

struct SourceRow {
  std::size_t line = 0;  // 1-based line of the file on which the row begins
  std::variant<PromptRow, TextRow, ChatRow, BrokenRow> content;
};

}  // namespace zerolock
