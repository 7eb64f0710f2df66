#pragma once
/// What the small files next to a tokenizer say about it.

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/added_tokens.hpp"
#include "data/tokenizer.hpp"
#include "tensors/files/json_object.hpp"

namespace zerolock {

/// Empty fields were not given.
struct TokenizerMetadata {
  std::string where;               // the folder, for errors
  std::string tokenizer_class;     // e.g. "LlamaTokenizer"
  std::optional<std::string> bos;  // the token's text
  std::optional<std::string> eos;
  std::optional<TokenId> bos_id;  // as the model's configuration has it
  std::optional<TokenId> eos_id;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> legacy;
  std::optional<std::string> chat_template;
  std::set<std::string> special;  // texts of every token with a special role (bos, eos, unk, pad, ...)
  std::vector<AddedToken> added;  // by added_tokens_decoder, else by added_tokens.json
};

/// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja,
/// generation_config.json and config.json of a folder, as far as they are there. Of two that say the same
/// thing the one named first counts. Throws InputError for broken files.
TokenizerMetadata read_tokenizer_metadata(const std::filesystem::path& folder);

/// One entry of "added_tokens" or "added_tokens_decoder".
AddedToken read_added_token(const JsonObject& entry, TokenId id);

}  // namespace zerolock
