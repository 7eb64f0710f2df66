#include <array>

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

}  // namespace

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
