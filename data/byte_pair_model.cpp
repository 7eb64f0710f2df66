#include "data/byte_pair_model.hpp"

#include <queue>

#include "data/unicode.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return (std::uint64_t{left} << 32) | right;
}

/// A merge that was possible when it was queued. The lowest rank goes first, then the leftmost place.
struct Candidate {
  std::uint32_t rank = 0;
  std::int32_t position = 0;
  std::uint32_t merged = 0;
};

struct GoesLater {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }
};

}  // namespace

std::string byte_token(std::size_t byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
}

BytePairModel::BytePairModel(const Vocabulary& vocabulary, const Merges& merges, BytePairOptions options,
                             std::string_view where)
    : options_(std::move(options)) {
  add_tokens(vocabulary, where);
  add_merges(merges, where);
  if (options_.unknown) {
    const auto id = find(*options_.unknown);
    if (!id) throw InputError(where, "unk_token \"" + *options_.unknown + "\" is not in the vocabulary");
    unknown_id_ = static_cast<std::uint32_t>(*id);
  }
  if (options_.byte_fallback) {
    byte_tokens_.resize(256);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (const auto id = find(byte_token(byte))) byte_tokens_[byte] = static_cast<std::uint32_t>(*id);
    }
  }
}

void BytePairModel::add_tokens(const Vocabulary& vocabulary, std::string_view where) {
  if (vocabulary.empty()) throw InputError(where, "the vocabulary is empty");
  TokenId largest = 0;
  for (const auto& [text, id] : vocabulary) {
    if (id < 0 || id >= kTokenIdLimit) {
      throw InputError(where, "token \"" + text + "\" has id " + std::to_string(id) + "; ids go from 0 to " +
                                  std::to_string(kTokenIdLimit - 1));
    }
    largest = std::max(largest, id);
  }
  tokens_.resize(static_cast<std::size_t>(largest) + 1);
  ids_.reserve(vocabulary.size());
  for (const auto& [text, id] : vocabulary) {
    auto& token = tokens_[static_cast<std::size_t>(id)];
    if (token) {
      throw InputError(where,
                       "tokens \"" + *token + "\" and \"" + text + "\" both have id " + std::to_string(id));
    }
    token = text;
    if (!ids_.emplace(text, static_cast<std::uint32_t>(id)).second) {
      throw InputError(where,
                       "token \"" + text + "\" stands twice, the second time with id " + std::to_string(id));
    }
  }
}

void BytePairModel::add_merges(const Merges& merges, std::string_view where) {
  merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& left = merges[rank].first;
    const std::string& right = merges[rank].second;
    const auto id_of = [&](const std::string& token) {
      const auto id = find(token);
      if (!id) {
        throw InputError(where, "merge " + std::to_string(rank) + " (\"" + left + "\" \"" + right +
                                    "\") needs the token \"" + token + "\", which is not in the vocabulary");
      }
      return static_cast<std::uint32_t>(*id);
    };
    const Merge merge{static_cast<std::uint32_t>(rank), id_of(left + right)};
    merges_.insert_or_assign(pair_key(id_of(left), id_of(right)), merge);
  }
}

std::optional<TokenId> BytePairModel::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> BytePairModel::token(TokenId id) const {
  if (id < 0 || id >= size()) return std::nullopt;
  return tokens_[static_cast<std::size_t>(id)];
}

const BytePairModel::Merge* BytePairModel::merge_of(std::uint32_t left, std::uint32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairModel::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = find(word)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(word);
  if (symbols.size() > 1) merge_all(symbols);
  for (const Symbol& symbol : symbols) {
    if (!symbol.merged_away) ids.push_back(symbol.id);
  }
}

/// One symbol a character, before any merge. A pending unknown run is written when the next known character
/// comes, as the library does; byte tokens do not end it.
std::vector<BytePairModel::Symbol> BytePairModel::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  bool unknown_pending = false;
  const auto write_unknown = [&] {
    if (unknown_pending) symbols.push_back({*unknown_id_});
    unknown_pending = false;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    static_cast<void>(next_code_point(word, at));
    const std::string_view character = word.substr(begin, at - begin);
    if (const auto found = ids_.find(character); found != ids_.end()) {
      write_unknown();
      symbols.push_back({found->second});
    } else if (!append_bytes(character, symbols) && unknown_id_) {
      if (!options_.fuse_unknown) write_unknown();
      unknown_pending = true;
    }
  }
  write_unknown();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<std::int32_t>(i) + 1 : -1;
  }
  return symbols;
}

bool BytePairModel::append_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : character) {
    if (!byte_tokens_[static_cast<std::uint8_t>(byte)]) return false;
  }
  for (const char byte : character) symbols.push_back({*byte_tokens_[static_cast<std::uint8_t>(byte)]});
  return true;
}

void BytePairModel::merge_all(std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate, std::vector<Candidate>, GoesLater> queue;
  const auto symbol = [&](std::int32_t position) -> Symbol& {
    return symbols[static_cast<std::size_t>(position)];
  };
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    if (const Merge* merge = merge_of(symbol(left).id, symbol(right).id)) {
      queue.push({merge->rank, left, merge->merged});
    }
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    offer(static_cast<std::int32_t>(i), static_cast<std::int32_t>(i) + 1);
  }
  while (!queue.empty()) {
    const Candidate candidate = queue.top();
    queue.pop();
    Symbol& left = symbol(candidate.position);
    if (left.merged_away || left.next < 0) continue;
    Symbol& right = symbol(left.next);
    // The pair may have changed since the candidate was queued.
    const Merge* merge = merge_of(left.id, right.id);
    if (merge == nullptr || merge->merged != candidate.merged) continue;
    right.merged_away = true;
    left.id = candidate.merged;
    left.next = right.next;
    if (left.next >= 0) symbol(left.next).previous = candidate.position;
    offer(left.previous, candidate.position);
    offer(candidate.position, left.next);
  }
}

}  // namespace zerolock
