#pragma once
/// Text to token ids and back, equal to Hugging Face's on every string.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

using TokenId = std::int64_t;

/// Immutable and thread-safe.
class Tokenizer {
 public:
  /// Opens the tokenizer that belongs to a model: of a folder tokenizer.json, else tokenizer.model; of a GGUF
  /// file its own. Also takes a tokenizer file itself. Throws InputError if there is none or it is of an
  /// unsupported kind.
  static std::shared_ptr<const Tokenizer> open(const std::filesystem::path& path);
  virtual ~Tokenizer() = default;

  /// Ids of a text (valid UTF-8). Special tokens written in the text are matched as Hugging Face matches
  /// them; `add_special` also adds what the tokenizer adds to a single text (BOS for Llama 2, nothing for
  /// SmolLM2).
  [[nodiscard]] virtual std::vector<TokenId> encode(std::string_view text, bool add_special) const = 0;
  [[nodiscard]] virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;

  /// One more than the largest id.
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  [[nodiscard]] virtual std::optional<TokenId> bos() const = 0;
  [[nodiscard]] virtual std::optional<TokenId> eos() const = 0;
  /// The Jinja chat template that came with the tokenizer, if any.
  [[nodiscard]] virtual std::optional<std::string> chat_template() const = 0;
};

}  // namespace zerolock
