#pragma once
/// The tokenizer keys that all GGUF files share.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/added_tokens.hpp"
#include "data/sentence_piece_model.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

class GgufFile;

struct GgufTokens {
  std::vector<std::string> texts;  // by id
  std::vector<PieceType> types;    // by id
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<std::string> chat_template;

  /// Control tokens as special ones, user-defined tokens as plain ones; both are matched in the text as it
  /// is.
  [[nodiscard]] std::vector<AddedToken> added() const;
};

/// Throws InputError if a key is missing, lists differ in length, a type is unknown or a token is not UTF-8.
GgufTokens read_gguf_tokens(const GgufFile& file, const std::string& where);

}  // namespace zerolock
