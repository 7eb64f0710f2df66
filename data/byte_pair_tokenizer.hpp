#pragma once
/// A byte-pair tokenizer put together from its parts, and the files the parts come from.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/added_tokens.hpp"
#include "data/byte_pair_model.hpp"
#include "data/pre_tokenizer.hpp"
#include "data/text_normalizer.hpp"
#include "data/token_decoder.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

class GgufFile;

/// In the order text goes through them: added tokens are cut out, the rest is normalized, split into words
/// and merged.
struct BytePairParts {
  AddedTokens added;
  TextNormalizer normalizer;
  PreTokenizer pre_tokenizer;
  BytePairModel model;
  TokenDecoder decoder;
  std::vector<TokenId> prefix;  // what `add_special` puts before a text
  std::vector<TokenId> suffix;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<std::string> chat_template;
};

class BytePairTokenizer final : public Tokenizer {
 public:
  /// `where` names the file in errors. Throws InputError if an added token contradicts the vocabulary or
  /// another one, or if a special id is outside.
  BytePairTokenizer(BytePairParts parts, std::string where);

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special) const override;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return parts_.bos; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return parts_.eos; }
  [[nodiscard]] std::optional<std::string> chat_template() const override { return parts_.chat_template; }

 private:
  void check_added_tokens() const;
  void check_special_ids() const;

  BytePairParts parts_;
  std::string where_;
  std::int64_t vocabulary_ = 0;
};

/// Reads a tokenizer.json and what the files next to it say. Throws InputError if it is broken or has a part
/// that is not supported, which the error names.
std::shared_ptr<const Tokenizer> read_byte_pair_json(const std::filesystem::path& file);

/// Reads a tokenizer of model "gpt2" from a GGUF file. `where` names the file in errors.
std::shared_ptr<const Tokenizer> read_byte_pair_gguf(const GgufFile& file, const std::string& where);

/// The same tokenizer as the text of a tokenizer.json.
std::string byte_pair_json_of_gguf(const GgufFile& file, const std::string& where);

}  // namespace zerolock
