#include "data/byte_pair_tokenizer.hpp"

#include <algorithm>
#include <unordered_set>

#include "data/utf8.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

BytePairTokenizer::BytePairTokenizer(BytePairParts parts, std::string where)
    : parts_(std::move(parts)), where_(std::move(where)), vocabulary_(parts_.model.size()) {
  check_added_tokens();
  for (const AddedToken& token : parts_.added.all()) vocabulary_ = std::max(vocabulary_, token.id + 1);
  check_special_ids();
}

void BytePairTokenizer::check_added_tokens() const {
  std::unordered_set<TokenId> ids;
  std::unordered_set<std::string> texts;
  for (const AddedToken& token : parts_.added.all()) {
    const std::string name = "added token \"" + token.content + "\" with id " + std::to_string(token.id);
    if (token.id < 0 || token.id >= kTokenIdLimit) {
      throw InputError(where_, name + ": ids go from 0 to " + std::to_string(kTokenIdLimit - 1));
    }
    const auto in_vocabulary = parts_.model.token(token.id);
    if (in_vocabulary && *in_vocabulary != token.content) {
      throw InputError(where_, name + ": the vocabulary has \"" + std::string(*in_vocabulary) + "\" there");
    }
    const auto other_id = parts_.model.find(token.content);
    if (other_id && *other_id != token.id) {
      throw InputError(where_, name + ": the vocabulary has it as id " + std::to_string(*other_id));
    }
    if (!ids.insert(token.id).second) throw InputError(where_, name + ": another added token has that id");
    if (!texts.insert(token.content).second) throw InputError(where_, name + ": it stands twice");
  }
}

void BytePairTokenizer::check_special_ids() const {
  std::vector<TokenId> used = parts_.prefix;
  used.insert(used.end(), parts_.suffix.begin(), parts_.suffix.end());
  if (parts_.bos) used.push_back(*parts_.bos);
  if (parts_.eos) used.push_back(*parts_.eos);
  for (const TokenId id : used) {
    if (id < 0 || id >= vocabulary_) {
      throw InputError(where_, "special token id " + std::to_string(id) + " is outside the vocabulary of " +
                                   std::to_string(vocabulary_) + " tokens");
    }
  }
}

std::vector<TokenId> BytePairTokenizer::encode(std::string_view text, bool add_special) const {
  if (const auto bad = first_invalid_utf8(text)) {
    throw InputError("text to tokenize", "not valid UTF-8 at byte " + std::to_string(*bad));
  }
  std::vector<TokenId> ids;
  if (add_special) ids = parts_.prefix;
  for (const TextSegment& raw : parts_.added.split_raw(text)) {
    if (raw.token) {
      ids.push_back(*raw.token);
      continue;
    }
    const std::string normalized = parts_.normalizer.apply(raw.text);
    for (const TextSegment& segment : parts_.added.split_normalized(normalized)) {
      if (segment.token) {
        ids.push_back(*segment.token);
        continue;
      }
      const bool at_beginning = raw.text.data() == text.data() && segment.text.data() == normalized.data();
      for (const std::string& word : parts_.pre_tokenizer.split(segment.text, at_beginning)) {
        parts_.model.encode(word, ids);
      }
    }
  }
  if (add_special) ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  return ids;
}

std::string BytePairTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocabulary_) {
      throw InputError("token id " + std::to_string(id),
                       "outside the vocabulary of " + std::to_string(vocabulary_) + " tokens of " + where_);
    }
    if (const AddedToken* added = parts_.added.find(id)) {
      if (!(skip_special && added->special)) tokens.push_back(added->content);
    } else if (const auto token = parts_.model.token(id)) {
      tokens.emplace_back(*token);
    }
  }
  return parts_.decoder.decode(std::move(tokens));
}

}  // namespace zerolock
