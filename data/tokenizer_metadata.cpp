#include "data/tokenizer_metadata.hpp"

#include <charconv>
#include <fstream>
#include <iterator>

#include "data/byte_pair_model.hpp"
#include "data/json_members.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

/// A token is written as its text or as an object with "content".
std::optional<std::string> find_token(const JsonObject& object, const char* key) {
  const json* value = object.find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return object.object(key).text("content");
  return object.text(key);
}

void read_special_tokens(const JsonObject& object, TokenizerMetadata& metadata) {
  if (!metadata.bos) metadata.bos = find_token(object, "bos_token");
  if (!metadata.eos) metadata.eos = find_token(object, "eos_token");
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (auto token = find_token(object, key)) metadata.special.insert(*std::move(token));
  }
  if (!object.has("additional_special_tokens")) return;
  for (const json& token : list_member(object, "additional_special_tokens")) {
    if (token.is_string()) {
      metadata.special.insert(token.get<std::string>());
    } else {
      metadata.special.insert(
          JsonObject(place_of(object, "additional_special_tokens"), token).text("content"));
    }
  }
}

/// One template, or a list of named ones of which "default" is for chats.
std::optional<std::string> read_chat_template(const JsonObject& config) {
  const json* value = config.find("chat_template");
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return config.text("chat_template");
  for (const json& entry : *value) {
    const JsonObject named(place_of(config, "chat_template"), entry);
    if (named.text("name") == "default") return named.text("template");
  }
  return std::nullopt;
}

TokenId parse_id(const std::string& digits, const std::string& where) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (error != std::errc() || end != digits.data() + digits.size() || id < 0 || id >= kTokenIdLimit) {
    throw InputError(where, "\"" + digits + "\" is not a token id");
  }
  return id;
}

void read_tokenizer_config(const std::filesystem::path& file, TokenizerMetadata& metadata) {
  const json document = read_json_object(file);
  const JsonObject config(file.string(), document);
  metadata.tokenizer_class = config.text_or("tokenizer_class", "");
  metadata.add_bos = optional_boolean(config, "add_bos_token");
  metadata.add_eos = optional_boolean(config, "add_eos_token");
  metadata.legacy = optional_boolean(config, "legacy");
  metadata.chat_template = read_chat_template(config);
  read_special_tokens(config, metadata);
  if (const auto added = optional_object(config, "added_tokens_decoder")) {
    for (const auto& [digits, entry] : config.value("added_tokens_decoder").items()) {
      const TokenId id = parse_id(digits, added->where());
      metadata.added.push_back(read_added_token(JsonObject(added->where() + ": " + digits, entry), id));
    }
  }
}

void read_added_tokens(const std::filesystem::path& file, TokenizerMetadata& metadata) {
  const json document = read_json_object(file);
  const JsonObject ids(file.string(), document);
  for (const auto& [text, id] : document.items()) {
    const TokenId value = ids.integer(text.c_str());
    if (value < 0 || value >= kTokenIdLimit) ids.refuse(text.c_str(), "is not a token id");
    AddedToken token;
    token.id = value;
    token.content = text;
    token.special = metadata.special.contains(text);
    metadata.added.push_back(std::move(token));
  }
}

/// An id, or a list of which the first counts.
std::optional<TokenId> find_id(const JsonObject& config, const char* key) {
  const json* value = config.find(key);
  if (value == nullptr || (value->is_array() && value->empty())) return std::nullopt;
  const json& id = value->is_array() ? value->front() : *value;
  if (!id.is_number_integer()) config.refuse(key, "must be a token id or a list of them");
  return id.get<TokenId>();
}

void read_model_config(const std::filesystem::path& file, TokenizerMetadata& metadata) {
  const json document = read_json_object(file);
  const JsonObject config(file.string(), document);
  if (!metadata.bos_id) metadata.bos_id = find_id(config, "bos_token_id");
  if (!metadata.eos_id) metadata.eos_id = find_id(config, "eos_token_id");
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file.string(), "the file cannot be opened");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

AddedToken read_added_token(const JsonObject& entry, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = entry.text("content");
  token.special = entry.boolean_or("special", false);
  token.normalized = entry.boolean_or("normalized", !token.special);
  token.single_word = entry.boolean_or("single_word", false);
  token.strips_left = entry.boolean_or("lstrip", false);
  token.strips_right = entry.boolean_or("rstrip", false);
  return token;
}

TokenizerMetadata read_tokenizer_metadata(const std::filesystem::path& folder) {
  TokenizerMetadata metadata;
  metadata.where = folder.string();
  const auto exists = [&](const char* name) { return std::filesystem::exists(folder / name); };
  if (exists("tokenizer_config.json")) read_tokenizer_config(folder / "tokenizer_config.json", metadata);
  if (exists("special_tokens_map.json")) {
    const auto file = folder / "special_tokens_map.json";
    const json document = read_json_object(file);
    read_special_tokens(JsonObject(file.string(), document), metadata);
  }
  if (metadata.added.empty() && exists("added_tokens.json"))
    read_added_tokens(folder / "added_tokens.json", metadata);
  if (exists("chat_template.jinja")) metadata.chat_template = read_text(folder / "chat_template.jinja");
  if (exists("generation_config.json")) read_model_config(folder / "generation_config.json", metadata);
  if (exists("config.json")) read_model_config(folder / "config.json", metadata);
  return metadata;
}

}  // namespace zerolock
