#include "data/gguf_tokens.hpp"
#include "data/sentence_piece_tokenizer.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"

namespace zerolock {
namespace {

SentencePieceModel read_model(const GgufTokens& tokens, const GgufFile& file, const std::string& where) {
  const std::vector<double>& scores = file.metadata_floats("tokenizer.ggml.scores");
  if (scores.size() != tokens.texts.size()) {
    throw InputError(where, "tokenizer.ggml.scores has " + std::to_string(scores.size()) + " entries for " +
                                std::to_string(tokens.texts.size()) + " tokens");
  }
  SentencePieceOptions options;
  options.add_dummy_prefix = file.optional_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  options.remove_extra_whitespaces =
      file.optional_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  std::vector<SentencePiece> pieces;
  pieces.reserve(tokens.texts.size());
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    PieceType type = tokens.types[id];
    // Added tokens are cut out of the text before the model sees it; it must not match them by itself.
    if (type == PieceType::UserDefined) type = PieceType::Control;
    options.byte_fallback = options.byte_fallback || type == PieceType::Byte;
    pieces.push_back({tokens.texts[id], static_cast<float>(scores[id]), type});
  }
  return {std::move(pieces), std::move(options), where};
}

}  // namespace

std::shared_ptr<const Tokenizer> read_sentence_piece_gguf(const GgufFile& file, const std::string& where) {
  const GgufTokens tokens = read_gguf_tokens(file, where);
  SentencePieceParts parts{.model = read_model(tokens, file, where)};
  parts.added = tokens.added();
  AddedToken unknown;
  unknown.id = parts.model.unknown();
  unknown.content = tokens.texts[static_cast<std::size_t>(unknown.id)];
  unknown.special = true;
  parts.added.push_back(std::move(unknown));
  for (const AddedToken& token : parts.added) {
    if (token.special) parts.special.insert(token.content);
  }
  parts.bos = tokens.bos;
  parts.eos = tokens.eos;
  parts.add_bos = tokens.add_bos.value_or(true);
  parts.add_eos = tokens.add_eos.value_or(false);
  parts.chat_template = tokens.chat_template;
  return std::make_shared<SentencePieceTokenizer>(std::move(parts), where);
}

}  // namespace zerolock
