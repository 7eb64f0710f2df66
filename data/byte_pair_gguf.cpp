#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <variant>

#include "data/byte_pair_tokenizer.hpp"
#include "data/gguf_tokens.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"

namespace zerolock {
namespace {

/// What a value of tokenizer.ggml.pre stands for. Hugging Face's files of the same families have these parts.
struct Family {
  std::string_view name;
  std::vector<PreTokenizerStep> steps;
  std::vector<NormalizerStep> normalizer = {};
  bool ignore_merges = false;
  bool adds_bos = false;  // where the file does not say
};

const Family& family_of(const GgufFile& file, const std::string& where) {
  static const std::array<Family, 5> families = {{
      {"gpt-2", {ByteLevelSplit{}}},
      {"smollm", {DigitSplit{true}, ByteLevelSplit{}}},
      {"starcoder", {DigitSplit{true}, ByteLevelSplit{}}},
      {"llama-bpe", {PatternSplit{WordPattern::Llama3}, ByteLevelSplit{false, false}}, {}, true, true},
      {"qwen2", {PatternSplit{WordPattern::Qwen2}, ByteLevelSplit{false, false}}, {NormalizationForm::C}},
  }};
  const std::string name = file.metadata_string("tokenizer.ggml.pre");
  std::string supported;
  for (const Family& family : families) {
    if (family.name == name) return family;
    supported += (supported.empty() ? "" : ", ") + std::string(family.name);
  }
  throw InputError(where, "tokenizer.ggml.pre \"" + name + "\" is not supported; supported: " + supported);
}

BytePairModel::Merges read_merges(const GgufFile& file, const std::string& where) {
  const std::vector<std::string>& lines = file.metadata_strings("tokenizer.ggml.merges");
  BytePairModel::Merges merges;
  merges.reserve(lines.size());
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string& line = lines[rank];
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      throw InputError(where,
                       "tokenizer.ggml.merges: number " + std::to_string(rank) + " is not a pair of tokens");
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

std::vector<TokenId> frame_of(bool wanted, std::optional<TokenId> id, const std::string& key,
                              const std::string& where) {
  if (!wanted) return {};
  if (!id) throw InputError(where, "the tokenizer adds a token that " + key + " does not name");
  return {*id};
}

// -- The same as a tokenizer.json
// -----------------------------------------------------------------------------------

using nlohmann::ordered_json;

ordered_json json_of(const PatternSplit& step) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", std::string(regular_expression_of(step.pattern))}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}
ordered_json json_of(const DigitSplit& step) {
  return {{"type", "Digits"}, {"individual_digits", step.individual}};
}
ordered_json json_of(const ByteLevelSplit& step) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", step.add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", step.use_pattern}};
}
ordered_json json_of(const MetaspaceSplit&) {
  throw std::logic_error("no family of byte-pair GGUF files splits at a metaspace");
}

ordered_json added_tokens_json(const GgufTokens& tokens) {
  ordered_json list = ordered_json::array();
  for (const AddedToken& token : tokens.added()) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.strips_left},
                    {"rstrip", token.strips_right},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

/// What is put before and behind a text; null for nothing.
ordered_json frame_json(const std::vector<TokenId>& prefix, const std::vector<TokenId>& suffix,
                        const GgufTokens& tokens) {
  if (prefix.empty() && suffix.empty()) return nullptr;
  ordered_json single = ordered_json::array();
  ordered_json special = ordered_json::object();
  const auto add = [&](TokenId id) {
    const std::string& text = tokens.texts.at(static_cast<std::size_t>(id));
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {
        {"id", text}, {"ids", ordered_json::array({id})}, {"tokens", ordered_json::array({text})}};
  };
  for (const TokenId id : prefix) add(id);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const TokenId id : suffix) add(id);
  ordered_json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

}  // namespace

std::string byte_pair_json_of_gguf(const GgufFile& file, const std::string& where) {
  const Family& family = family_of(file, where);
  const GgufTokens tokens = read_gguf_tokens(file, where);
  ordered_json vocabulary = ordered_json::object();
  // Not by operator[], which looks through all that are there.
  auto& entries = vocabulary.get_ref<ordered_json::object_t&>();
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    static_cast<ordered_json::object_t::Container&>(entries).emplace_back(tokens.texts[id], id);
  }
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : read_merges(file, where)) merges.push_back(left + " " + right);
  ordered_json steps = ordered_json::array();
  for (const PreTokenizerStep& step : family.steps) {
    steps.push_back(std::visit([](const auto& split) { return json_of(split); }, step));
  }
  const auto prefix =
      frame_of(tokens.add_bos.value_or(family.adds_bos), tokens.bos, "tokenizer.ggml.bos_token_id", where);
  const auto suffix =
      frame_of(tokens.add_eos.value_or(false), tokens.eos, "tokenizer.ggml.eos_token_id", where);
  ordered_json json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = added_tokens_json(tokens);
  // Of the families only Qwen2's normalizes.
  json["normalizer"] = family.normalizer.empty() ? ordered_json() : ordered_json{{"type", "NFC"}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  json["post_processor"] = frame_json(prefix, suffix, tokens);
  json["decoder"] = json_of(ByteLevelSplit{});
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", family.ignore_merges}};
  json["model"]["vocab"] = std::move(vocabulary);
  json["model"]["merges"] = std::move(merges);
  return json.dump(1) + "\n";
}

std::shared_ptr<const Tokenizer> read_byte_pair_gguf(const GgufFile& file, const std::string& where) {
  const Family& family = family_of(file, where);
  const GgufTokens tokens = read_gguf_tokens(file, where);
  BytePairModel::Vocabulary vocabulary;
  vocabulary.reserve(tokens.texts.size());
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    vocabulary.emplace_back(tokens.texts[id], static_cast<TokenId>(id));
  }
  BytePairOptions options;
  options.ignore_merges = family.ignore_merges;
  const bool add_bos = tokens.add_bos.value_or(family.adds_bos);
  TextNormalizer normalizer(family.normalizer);
  BytePairParts parts{
      AddedTokens(tokens.added(), normalizer),
      std::move(normalizer),
      PreTokenizer(family.steps),
      BytePairModel(vocabulary, read_merges(file, where), std::move(options), where),
      TokenDecoder({DecodeByteLevel{}}),
      frame_of(add_bos, tokens.bos, "tokenizer.ggml.bos_token_id", where),
      frame_of(tokens.add_eos.value_or(false), tokens.eos, "tokenizer.ggml.eos_token_id", where),
      tokens.bos,
      tokens.eos,
      tokens.chat_template};
  return std::make_shared<BytePairTokenizer>(std::move(parts), where);
}

}  // namespace zerolock
