#include "data/gguf_tokens.hpp"

#include "data/byte_pair_model.hpp"
#include "data/utf8.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"

namespace zerolock {

GgufTokens read_gguf_tokens(const GgufFile& file, const std::string& where) {
  GgufTokens tokens;
  tokens.texts = file.metadata_strings("tokenizer.ggml.tokens");
  if (tokens.texts.empty() || tokens.texts.size() >= static_cast<std::size_t>(kTokenIdLimit)) {
    throw InputError(where, "tokenizer.ggml.tokens has " + std::to_string(tokens.texts.size()) +
                                " tokens; 1 to " + std::to_string(kTokenIdLimit - 1) + " are possible");
  }
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (first_invalid_utf8(tokens.texts[id])) {
      throw InputError(where, "tokenizer.ggml.tokens: token " + std::to_string(id) + " is not valid UTF-8");
    }
  }
  const std::vector<std::int64_t>& types = file.metadata_integers("tokenizer.ggml.token_type");
  if (types.size() != tokens.texts.size()) {
    throw InputError(where, "tokenizer.ggml.token_type has " + std::to_string(types.size()) +
                                " entries for " + std::to_string(tokens.texts.size()) + " tokens");
  }
  for (std::size_t id = 0; id < types.size(); ++id) {
    if (types[id] < 1 || types[id] > 6) {
      throw InputError(where, "tokenizer.ggml.token_type: token " + std::to_string(id) + " has type " +
                                  std::to_string(types[id]) + "; types go from 1 to 6");
    }
    tokens.types.push_back(static_cast<PieceType>(types[id]));
  }
  tokens.bos = file.optional_integer("tokenizer.ggml.bos_token_id");
  tokens.eos = file.optional_integer("tokenizer.ggml.eos_token_id");
  tokens.add_bos = file.optional_bool("tokenizer.ggml.add_bos_token");
  tokens.add_eos = file.optional_bool("tokenizer.ggml.add_eos_token");
  tokens.chat_template = file.optional_string("tokenizer.chat_template");
  return tokens;
}

std::vector<AddedToken> GgufTokens::added() const {
  std::vector<AddedToken> list;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (types[id] != PieceType::Control && types[id] != PieceType::UserDefined) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = texts[id];
    token.special = types[id] == PieceType::Control;
    list.push_back(std::move(token));
  }
  return list;
}

}  // namespace zerolock
