#include <algorithm>
#include <array>

#include "data/byte_pair_tokenizer.hpp"
#include "data/json_members.hpp"
#include "data/tokenizer_metadata.hpp"
#include "data/tokenizer_steps.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

void refuse_option(const JsonObject& model, const char* key) {
  const json* value = model.find(key);
  const bool harmless = value == nullptr || (value->is_string() && value->get<std::string>().empty()) ||
                        (value->is_number() && value->get<double>() == 0.0);
  if (!harmless) model.refuse(key, describe(*value) + " is not supported");
}

BytePairModel::Vocabulary read_vocabulary(const JsonObject& model) {
  const json& vocabulary = model.value("vocab");
  if (!vocabulary.is_object()) model.refuse("vocab", "must be an object, is " + describe(vocabulary));
  BytePairModel::Vocabulary tokens;
  tokens.reserve(vocabulary.size());
  for (const auto& [text, id] : vocabulary.items()) {
    const bool usable = id.is_number_integer() && id >= 0 && id < kTokenIdLimit;
    if (!usable) {
      model.refuse("vocab", "gives token \"" + text + "\" the id " + describe(id) + "; ids go from 0 to " +
                                std::to_string(kTokenIdLimit - 1));
    }
    tokens.emplace_back(text, id.get<TokenId>());
  }
  return tokens;
}

/// A merge is written as a pair, or as its two tokens with a space between.
std::pair<std::string, std::string> read_merge(const json& merge, std::size_t rank, const JsonObject& model) {
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  model.refuse("merges", "has as number " + std::to_string(rank) + " something that is not a pair of tokens");
}

BytePairModel read_model(const JsonObject& file) {
  const JsonObject model = file.object("model");
  // Files of old versions leave the type out.
  const std::string type = model.text_or("type", "BPE");
  if (type != "BPE") {
    model.refuse("type", "\"" + type + "\" is not supported; supported: BPE");
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse_option(model, key);
  BytePairOptions options;
  options.unknown = optional_text(model, "unk_token");
  options.fuse_unknown = model.boolean_or("fuse_unk", false);
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  const json& list = list_member(model, "merges");
  BytePairModel::Merges merges;
  merges.reserve(list.size());
  for (std::size_t rank = 0; rank < list.size(); ++rank)
    merges.push_back(read_merge(list[rank], rank, model));
  return {read_vocabulary(model), merges, std::move(options), model.where()};
}

std::vector<AddedToken> read_added_tokens(const JsonObject& file) {
  std::vector<AddedToken> tokens;
  if (!file.has("added_tokens")) return tokens;
  for (const json& value : list_member(file, "added_tokens")) {
    const JsonObject entry(place_of(file, "added_tokens"), value);
    tokens.push_back(read_added_token(entry, entry.integer("id")));
  }
  return tokens;
}

/// The id of a token that a file next to tokenizer.json names.
TokenId named_id(const BytePairParts& parts, const std::string& token, const TokenizerMetadata& metadata) {
  if (const AddedToken* added = parts.added.find(token)) return added->id;
  if (const auto id = parts.model.find(token)) return *id;
  throw InputError(metadata.where, "the special token \"" + token + "\" is not in the vocabulary");
}

/// By name, else by id, else from the frame, else by the customary name.
std::optional<TokenId> special_id(const BytePairParts& parts, const TokenizerMetadata& metadata,
                                  const std::optional<std::string>& name, std::optional<TokenId> id,
                                  const std::vector<TokenId>& frame, const std::string& customary) {
  if (name) return named_id(parts, *name, metadata);
  if (id) return id;
  if (frame.size() == 1) return frame.front();
  const AddedToken* added = parts.added.find(customary);
  return added != nullptr && added->special ? std::optional(added->id) : std::nullopt;
}

/// Hugging Face's classes of the Llama kind ignore the file's post-processor and go by these two switches.
bool has_own_frame(const std::string& tokenizer_class) {
  constexpr std::array<std::string_view, 6> classes = {"LlamaTokenizer",     "LlamaTokenizerFast",
                                                       "CodeLlamaTokenizer", "CodeLlamaTokenizerFast",
                                                       "GemmaTokenizer",     "GemmaTokenizerFast"};
  return std::find(classes.begin(), classes.end(), tokenizer_class) != classes.end();
}

std::vector<TokenId> own_frame(bool wanted, std::optional<TokenId> id, const char* name,
                               const std::string& where) {
  if (!wanted) return {};
  if (!id)
    throw InputError(where,
                     std::string("the tokenizer adds ") + name + ", but no file says which token it is");
  return {*id};
}

}  // namespace

std::shared_ptr<const Tokenizer> read_byte_pair_json(const std::filesystem::path& file) {
  const TokenizerMetadata metadata = read_tokenizer_metadata(file.parent_path());
  const json document = read_json_object(file);
  const JsonObject object(file.string(), document);
  TextNormalizer normalizer = read_normalizer(object);
  SpecialFrame frame = read_post_processor(object);
  BytePairParts parts{AddedTokens(read_added_tokens(object), normalizer),
                      std::move(normalizer),
                      read_pre_tokenizer(object),
                      read_model(object),
                      read_decoder(object),
                      std::move(frame.prefix),
                      std::move(frame.suffix),
                      std::nullopt,
                      std::nullopt,
                      metadata.chat_template};
  parts.bos = special_id(parts, metadata, metadata.bos, metadata.bos_id, parts.prefix, "<s>");
  parts.eos = special_id(parts, metadata, metadata.eos, metadata.eos_id, parts.suffix, "</s>");
  if (has_own_frame(metadata.tokenizer_class)) {
    parts.prefix = own_frame(metadata.add_bos.value_or(true), parts.bos, "BOS", metadata.where);
    parts.suffix = own_frame(metadata.add_eos.value_or(false), parts.eos, "EOS", metadata.where);
  }
  return std::make_shared<BytePairTokenizer>(std::move(parts), file.string());
}

}  // namespace zerolock
