#include "data/jsonl_rows.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/field_name.hpp"
#include "data/utf8.hpp"

namespace zerolock {
namespace {

using Json = nlohmann::ordered_json;

/// A string, or a number or truth value as it is written; nothing for anything else.
std::optional<std::string> as_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

const std::string* string_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const Json::string_t*>();
}

using Content = decltype(SourceRow::content);

Content chat_of(const Json& messages) {
  if (!messages.is_array()) return BrokenRow{"\"messages\" is not an array"};
  ChatRow row;
  for (const Json& message : messages) {
    const std::string* role = message.is_object() ? string_at(message, "role") : nullptr;
    const std::string* content = message.is_object() ? string_at(message, "content") : nullptr;
    if (!role || !content) return BrokenRow{"a message needs \"role\" and \"content\", both strings"};
    row.messages.push_back({*role, *content});
  }
  return row;
}

/// A row with a prompt: every other string or number of the object is a field.
Content prompt_row_of(const Json& object, const std::string& answer_key, bool is_class) {
  PromptRow row;
  row.is_class = is_class;
  const std::optional<std::string> answer = as_text(object.at(answer_key));
  if (!answer || (!is_class && !object.at(answer_key).is_string())) {
    return BrokenRow{"\"" + answer_key + "\" is not a " + (is_class ? "string or number" : "string")};
  }
  row.answer = *answer;
  for (const auto& [key, value] : object.items()) {
    if (key == answer_key) continue;
    if (std::optional<std::string> text = as_text(value))
      row.fields.emplace_back(lower_case(key), std::move(*text));
  }
  return row;
}

Content content_of(const Json& object) {
  if (!object.is_object()) return BrokenRow{"not a JSON object"};
  if (const auto messages = object.find("messages"); messages != object.end()) return chat_of(*messages);
  for (const char* key : {"class", "label"}) {
    if (object.contains(key)) return prompt_row_of(object, key, true);
  }
  if (object.contains("prompt") != object.contains("completion")) {
    return BrokenRow{object.contains("prompt") ? "a \"prompt\" without \"completion\""
                                               : "a \"completion\" without \"prompt\""};
  }
  if (object.contains("prompt")) {
    if (!string_at(object, "prompt")) return BrokenRow{"\"prompt\" is not a string"};
    return prompt_row_of(object, "completion", false);
  }
  if (object.contains("text")) {
    const std::string* text = string_at(object, "text");
    if (!text) return BrokenRow{"\"text\" is not a string"};
    return TextRow{*text};
  }
  return BrokenRow{"needs \"prompt\" and \"completion\", \"text\", \"messages\", or \"class\" or \"label\""};
}

Content read_line(std::string_view line) {
  if (trimmed(line).empty()) return BrokenRow{"a blank line between rows"};
  if (std::string problem = utf8_problem(line); !problem.empty()) return BrokenRow{std::move(problem)};
  try {
    return content_of(Json::parse(line));
  } catch (const Json::exception& error) {
    // The library's text begins with its own error number in brackets, which tells a user nothing.
    const std::string_view what = error.what();
    const std::size_t bracket = what.find("] ");
    return BrokenRow{"not JSON: " +
                     std::string(bracket == std::string_view::npos ? what : what.substr(bracket + 2))};
  }
}

}  // namespace

std::vector<SourceRow> read_jsonl_rows(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::vector<SourceRow> rows;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    rows.push_back({line, read_line(text.substr(0, end))});
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return rows;
}

}  // namespace zerolock
