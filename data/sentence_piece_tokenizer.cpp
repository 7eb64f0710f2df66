#include "data/sentence_piece_tokenizer.hpp"

#include <algorithm>

#include "data/byte_pair_model.hpp"
#include "data/tokenizer_metadata.hpp"
#include "data/utf8.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceParts parts, std::string where)
    : parts_(std::move(parts)),
      added_(parts_.added, TextNormalizer()),
      where_(std::move(where)),
      vocabulary_(pieces()) {
  for (const AddedToken& token : parts_.added) {
    const std::string name = "added token \"" + token.content + "\" with id " + std::to_string(token.id);
    if (token.id < 0 || token.id >= kTokenIdLimit) {
      throw InputError(where_, name + ": ids go from 0 to " + std::to_string(kTokenIdLimit - 1));
    }
    if (token.id < pieces()) {
      const std::string& piece = parts_.model.pieces()[static_cast<std::size_t>(token.id)].text;
      if (piece != token.content) throw InputError(where_, name + ": the model has \"" + piece + "\" there");
    }
    vocabulary_ = std::max(vocabulary_, token.id + 1);
  }
  for (const auto& id : {parts_.bos, parts_.eos}) {
    if (id && (*id < 0 || *id >= vocabulary_)) {
      throw InputError(where_, "special token id " + std::to_string(*id) + " is outside the vocabulary of " +
                                   std::to_string(vocabulary_) + " tokens");
    }
  }
  if ((parts_.add_bos && !parts_.bos) || (parts_.add_eos && !parts_.eos)) {
    throw InputError(where_, "the tokenizer adds BOS or EOS, but does not say which token it is");
  }
}

std::vector<TokenId> SentencePieceTokenizer::encode(std::string_view text, bool add_special) const {
  if (const auto bad = first_invalid_utf8(text)) {
    throw InputError("text to tokenize", "not valid UTF-8 at byte " + std::to_string(*bad));
  }
  std::vector<TokenId> ids;
  if (add_special && parts_.add_bos) ids.push_back(*parts_.bos);
  for (const TextSegment& segment : added_.split_raw(text)) {
    if (segment.token) {
      ids.push_back(*segment.token);
    } else {
      parts_.model.encode(segment.text, ids);
    }
  }
  if (add_special && parts_.add_eos) ids.push_back(*parts_.eos);
  return ids;
}

/// Tokens that were added without a special role stand alone, with spaces around them; the stretches between
/// them are decoded by the model.
std::string SentencePieceTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<std::string> texts;
  std::vector<std::string> stretch;
  const auto end_stretch = [&] {
    std::string text = stretch.empty() ? std::string() : join(std::move(stretch));
    if (!text.empty()) texts.push_back(std::move(text));
    stretch.clear();
  };
  for (const TokenId id : ids) {
    const std::optional<std::string> token = token_text(id);
    if (!token || (skip_special && parts_.special.contains(*token))) continue;
    if (added_.find(id) != nullptr && !parts_.special.contains(*token)) {
      end_stretch();
      texts.push_back(*token);
    } else {
      stretch.push_back(*token);
    }
  }
  end_stretch();
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) text += (i > 0 ? " " : "") + texts[i];
  return text;
}

/// Nothing for an id between the model's pieces and the added tokens that nobody uses.
std::optional<std::string> SentencePieceTokenizer::token_text(TokenId id) const {
  if (id < 0 || id >= vocabulary_) {
    throw InputError("token id " + std::to_string(id),
                     "outside the vocabulary of " + std::to_string(vocabulary_) + " tokens of " + where_);
  }
  if (const AddedToken* added = added_.find(id)) return added->content;
  if (id < pieces()) return parts_.model.pieces()[static_cast<std::size_t>(id)].text;
  return std::nullopt;
}

/// LlamaTokenizer's own way in legacy mode: special tokens are written as they are, with a space before one
/// that follows text, and each stretch between them is decoded by the model, which drops its first space.
std::string SentencePieceTokenizer::join(std::vector<std::string> tokens) const {
  const bool prefix = parts_.model.options().add_dummy_prefix;
  if (prefix && tokens[0].starts_with(kPieceSpace)) tokens[0].erase(0, kPieceSpace.size());
  std::string text;
  std::vector<std::string> pieces;
  bool after_special = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (parts_.special.contains(tokens[i])) {
      if (!after_special && i != 0) text += ' ';
      text += parts_.model.decode(pieces) + tokens[i];
      pieces.clear();
      after_special = true;
      continue;
    }
    if (after_special && i == 1 && prefix && !tokens[i].starts_with(kPieceSpace)) text += ' ';
    pieces.push_back(tokens[i]);
    after_special = false;
  }
  return text + parts_.model.decode(pieces);
}

namespace {

/// Takes the special tokens' names and the added tokens from the files next to the model.
void apply(TokenizerMetadata metadata, SentencePieceParts& parts) {
  const auto id_of = [&](const std::string& text) {
    for (const AddedToken& token : metadata.added) {
      if (token.content == text) return token.id;
    }
    const auto id = parts.model.find(text);
    if (!id) throw InputError(metadata.where, "the special token \"" + text + "\" is not in the vocabulary");
    return *id;
  };
  if (metadata.bos) parts.bos = id_of(*metadata.bos);
  if (metadata.eos) parts.eos = id_of(*metadata.eos);
  parts.special.insert(metadata.special.begin(), metadata.special.end());
  parts.add_bos = metadata.add_bos.value_or(true);
  parts.add_eos = metadata.add_eos.value_or(false);
  for (AddedToken token : metadata.added) {
    token.normalized = false;
    if (token.special) parts.special.insert(token.content);
    parts.added.push_back(std::move(token));
  }
  for (const std::string& text : parts.special) {
    const auto same = [&](const AddedToken& token) { return token.content == text; };
    if (std::any_of(parts.added.begin(), parts.added.end(), same)) continue;
    AddedToken token;
    token.id = id_of(text);
    token.content = text;
    token.special = true;
    parts.added.push_back(std::move(token));
  }
  parts.chat_template = std::move(metadata.chat_template);
}

}  // namespace

std::shared_ptr<const Tokenizer> read_sentence_piece(const std::filesystem::path& file) {
  SentencePieceFile content = read_sentence_piece_file(file);
  TokenizerMetadata metadata = read_tokenizer_metadata(file.parent_path());
  if (!metadata.legacy.value_or(true)) {
    throw InputError(
        metadata.where,
        "\"legacy\": false is not supported for a tokenizer.model; add the tokenizer.json that goes with it");
  }
  SentencePieceParts parts{.model = std::move(content.model)};
  parts.bos = parts.model.find(content.bos_piece);
  parts.eos = parts.model.find(content.eos_piece);
  for (const auto& id : {parts.bos, parts.eos, std::optional(parts.model.unknown())}) {
    if (id) parts.special.insert(parts.model.pieces()[static_cast<std::size_t>(*id)].text);
  }
  apply(std::move(metadata), parts);
  return std::make_shared<SentencePieceTokenizer>(std::move(parts), file.string());
}

}  // namespace zerolock
