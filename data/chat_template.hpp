#pragma once
/// Conversations as a model's chat template writes them.
///
/// No Jinja is run. Three styles are known, recognised by the template's own text, and rendered by rules; any
/// other template is refused rather than guessed at:
///
/// - ChatML (SmolLM2, Qwen2): `<|im_start|>role\ncontent<|im_end|>\n`, any order of roles. A default system
/// message
///   that the template writes out (`<|im_start|>system\n...<|im_end|>\n`) is put before a conversation
///   without one.
/// - Llama 2: `<s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] assistant </s>`, user and assistant in
/// turn.
/// - Llama 3: `<|begin_of_text|>`, then `<|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>` for
/// each
///   message. Templates that write the current date (Llama 3.1 and later) are refused.
///
/// Tools and contents other than text are not supported.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
};

class ChatTemplate {
 public:
  enum class Style { kChatMl, kLlama2, kLlama3 };

  /// A stretch of a rendered conversation. Stretches are encoded one by one, so that a prompt's ids are those
  /// met when the model is asked to write the answer.
  struct Stretch {
    enum class Kind { kText, kBos, kEos };
    Kind kind = Kind::kText;
    std::string text;         // of kText
    bool supervised = false;  // the assistant's words and the token that ends them
  };

  /// Throws InputError naming `where` and the supported styles if there is no template or one of another
  /// style.
  static ChatTemplate recognise(const std::optional<std::string>& jinja, std::string_view where);

  /// Throws InputError (a reason without place) for an empty conversation, an unknown role, or roles in an
  /// order that the style has no place for.
  [[nodiscard]] std::vector<Stretch> render(std::span<const ChatMessage> messages) const;
  [[nodiscard]] Style style() const { return style_; }

 private:
  ChatTemplate(Style style, std::string default_system)
      : style_(style), default_system_(std::move(default_system)) {}
  [[nodiscard]] std::vector<Stretch> render_chat_ml(std::span<const ChatMessage> messages) const;
  [[nodiscard]] static std::vector<Stretch> render_llama2(std::span<const ChatMessage> messages);
  [[nodiscard]] static std::vector<Stretch> render_llama3(std::span<const ChatMessage> messages);

  Style style_;
  std::string default_system_;  // ChatML: what stands in for a missing system message; may be empty
};

}  // namespace zerolock
