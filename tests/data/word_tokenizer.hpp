#pragma once
/// A tokenizer for tests of everything that comes before and after a tokenizer: a token is a word with the
/// blank before it, or any other single character, or a special token written `<|...|>`.

#include <cctype>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.hpp"

namespace zerolock {

class WordTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kBos = 1;
  static constexpr TokenId kEos = 2;

  explicit WordTokenizer(bool adds_bos = false, std::optional<std::string> chat_template = std::nullopt)
      : adds_bos_(adds_bos), chat_template_(std::move(chat_template)) {}

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special) const override {
    const std::lock_guard lock(mutex_);
    std::vector<TokenId> ids;
    if (adds_bos_ && add_special) ids.push_back(kBos);
    while (!text.empty()) {
      const std::size_t length = token_length(text);
      ids.push_back(id_of(std::string(text.substr(0, length))));
      text.remove_prefix(length);
    }
    return ids;
  }

  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const TokenId id : ids) {
      if (id == kBos || id == kEos) {
        text += skip_special ? "" : (id == kBos ? "<s>" : "</s>");
      } else {
        text += texts_.at(id);
      }
    }
    return text;
  }

  [[nodiscard]] std::string decode(const std::vector<TokenId>& ids) const { return decode(ids, false); }
  [[nodiscard]] std::int64_t vocabulary() const override { return 1 << 20; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return kBos; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return kEos; }
  [[nodiscard]] std::optional<std::string> chat_template() const override { return chat_template_; }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0; }

  static std::size_t token_length(std::string_view text) {
    if (text.starts_with("<|")) {
      const std::size_t end = text.find("|>");
      if (end != std::string_view::npos) return end + 2;
    }
    std::size_t length = text[0] == ' ' ? 1 : 0;
    while (length < text.size() && is_word(text[length])) ++length;
    return length == 0 ? 1 : length;
  }

  TokenId id_of(const std::string& text) const {
    const auto [found, is_new] = ids_.emplace(text, static_cast<TokenId>(ids_.size()) + 3);
    if (is_new) texts_.emplace(found->second, text);
    return found->second;
  }

  bool adds_bos_;
  std::optional<std::string> chat_template_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, TokenId> ids_;
  mutable std::map<TokenId, std::string> texts_;
};

}  // namespace zerolock
