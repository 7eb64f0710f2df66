#include "data/chat_template.hpp"

#include "data/field_name.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Stretch = ChatTemplate::Stretch;

constexpr std::string_view kSupported =
    "supported are ChatML (<|im_start|>), Llama 2 ([INST] with <<SYS>>) and Llama 3 (<|start_header_id|>)";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Jinja string literals may write a line break as the two characters \n; here it becomes one.
std::string with_line_breaks(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    out += escape ? '\n' : text[i];
    if (escape) ++i;
  }
  return out;
}

/// The system message that a ChatML template writes out in one literal, as SmolLM2's and Qwen2's do; empty if
/// none.
std::string default_system_of(std::string_view jinja) {
  const std::string text = with_line_breaks(jinja);
  constexpr std::string_view kBegin = "<|im_start|>system\n";
  constexpr std::string_view kEnd = "<|im_end|>";
  for (std::size_t at = text.find(kBegin); at != std::string::npos; at = text.find(kBegin, at + 1)) {
    const std::size_t begin = at + kBegin.size();
    const std::size_t end = text.find(kEnd, begin);
    if (end == std::string::npos) break;
    std::string content = text.substr(begin, end - begin);
    if (!content.empty() && content.find_first_of("'\"{}") == std::string::npos) return content;
  }
  return {};
}

/// Collects text of one kind of supervision into as few stretches as possible.
void append(std::vector<Stretch>& stretches, std::string_view text, bool supervised) {
  if (text.empty()) return;
  if (!stretches.empty() && stretches.back().kind == Stretch::Kind::kText &&
      stretches.back().supervised == supervised) {
    stretches.back().text += text;
  } else {
    stretches.push_back({Stretch::Kind::kText, std::string(text), supervised});
  }
}

void check_roles(std::span<const ChatMessage> messages) {
  if (messages.empty()) throw InputError("a conversation without messages");
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      throw InputError("unknown role \"" + message.role + "\" (allowed: system, user, assistant)");
    }
  }
}

/// An assistant's turn in which there is nothing to say teaches nothing, not even its end.
bool teaches(const ChatMessage& message) {
  return message.role == "assistant" && !trimmed(message.content).empty();
}

}  // namespace

ChatTemplate ChatTemplate::recognise(const std::optional<std::string>& jinja, std::string_view where) {
  if (!jinja) {
    throw InputError(where, "rows of messages need a model with a chat template, and this one has none; " +
                                std::string(kSupported));
  }
  if (contains(*jinja, "<|im_start|>") && !contains(*jinja, "<think>")) {
    return {Style::kChatMl, default_system_of(*jinja)};
  }
  if (contains(*jinja, "[INST]") && contains(*jinja, "<<SYS>>")) return {Style::kLlama2, {}};
  const bool dated = contains(*jinja, "Cutting Knowledge Date") || contains(*jinja, "strftime_now");
  if (contains(*jinja, "<|start_header_id|>") && !dated) return {Style::kLlama3, {}};
  throw InputError(where, std::string(dated ? "the model's chat template writes the current date"
                                            : "the model's chat template is of an unsupported style") +
                              "; " + std::string(kSupported) + ", without dates and thinking");
}

std::vector<Stretch> ChatTemplate::render(std::span<const ChatMessage> messages) const {
  check_roles(messages);
  switch (style_) {
    case Style::kChatMl:
      return render_chat_ml(messages);
    case Style::kLlama2:
      return render_llama2(messages);
    case Style::kLlama3:
      return render_llama3(messages);
  }
  ZEROLOCK_INVARIANT(false, "a chat template has one of the known styles");
  return {};
}

std::vector<Stretch> ChatTemplate::render_chat_ml(std::span<const ChatMessage> messages) const {
  std::vector<Stretch> stretches;
  if (messages.front().role != "system" && !default_system_.empty()) {
    append(stretches, "<|im_start|>system\n" + default_system_ + "<|im_end|>\n", false);
  }
  for (const ChatMessage& message : messages) {
    append(stretches, "<|im_start|>" + message.role + "\n", false);
    append(stretches, message.content + "<|im_end|>", teaches(message));
    append(stretches, "\n", false);
  }
  return stretches;
}

std::vector<Stretch> ChatTemplate::render_llama2(std::span<const ChatMessage> messages) {
  std::vector<Stretch> stretches;
  std::string system;
  if (messages.front().role == "system") {
    system = "<<SYS>>\n" + messages.front().content + "\n<</SYS>>\n\n";
    messages = messages.subspan(1);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role != (i % 2 == 0 ? "user" : "assistant")) {
      throw InputError(
          "Llama 2 conversations take an optional system message, then user and assistant in turn");
    }
    if (i % 2 == 0) {
      stretches.push_back({Stretch::Kind::kBos, {}, false});
      const std::string content = (i == 0 ? system : "") + message.content;
      append(stretches, "[INST] " + std::string(trimmed(content)) + " [/INST]", false);
    } else {
      append(stretches, " " + std::string(trimmed(message.content)) + " ", teaches(message));
      stretches.push_back({Stretch::Kind::kEos, {}, teaches(message)});
    }
  }
  return stretches;
}

std::vector<Stretch> ChatTemplate::render_llama3(std::span<const ChatMessage> messages) {
  std::vector<Stretch> stretches{{Stretch::Kind::kBos, {}, false}};
  for (const ChatMessage& message : messages) {
    append(stretches, "<|start_header_id|>" + message.role + "<|end_header_id|>\n\n", false);
    append(stretches, std::string(trimmed(message.content)) + "<|eot_id|>", teaches(message));
  }
  return stretches;
}

}  // namespace zerolock
