#pragma once
/// Tokenizers of sentencepiece models, with Hugging Face's treatment of special tokens around them.

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/added_tokens.hpp"
#include "data/sentence_piece_model.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

class GgufFile;

struct SentencePieceParts {
  SentencePieceModel model;
  std::vector<AddedToken> added = {};  // matched in the text as it is; special ones among them
  std::set<std::string> special = {};  // texts of the tokens with a special role
  std::optional<TokenId> bos = {};
  std::optional<TokenId> eos = {};
  bool add_bos = true;
  bool add_eos = false;
  std::optional<std::string> chat_template = {};
};

/// Equal to Hugging Face's LlamaTokenizer (the one without a tokenizer.json) in its legacy mode: special
/// tokens are cut out of the text, and every stretch between them is encoded like a text of its own.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// `where` names the file in errors. Throws InputError if an added token or a special id contradicts the
  /// model.
  SentencePieceTokenizer(SentencePieceParts parts, std::string where);

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special) const override;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return parts_.bos; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return parts_.eos; }
  [[nodiscard]] std::optional<std::string> chat_template() const override { return parts_.chat_template; }

 private:
  [[nodiscard]] std::int64_t pieces() const {
    return static_cast<std::int64_t>(parts_.model.pieces().size());
  }
  [[nodiscard]] std::optional<std::string> token_text(TokenId id) const;
  [[nodiscard]] std::string join(std::vector<std::string> tokens) const;

  SentencePieceParts parts_;
  AddedTokens added_;
  std::string where_;
  std::int64_t vocabulary_ = 0;
};

/// Reads a .model file and what the files next to it say. Throws InputError if they are broken or not
/// supported.
std::shared_ptr<const Tokenizer> read_sentence_piece(const std::filesystem::path& file);

/// Reads a tokenizer of model "llama" from a GGUF file: pieces with scores. `where` names the file in errors.
std::shared_ptr<const Tokenizer> read_sentence_piece_gguf(const GgufFile& file, const std::string& where);

}  // namespace zerolock
