#include "data/sentence_piece_model.hpp"

#include <algorithm>
#include <cmath>
#include <queue>

#include "data/byte_pair_model.hpp"
#include "data/text_normalizer.hpp"
#include "data/unicode.hpp"
#include "data/utf8.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

std::string bytes_as_text(std::string_view bytes) {
  std::string text;
  while (const auto bad = first_invalid_utf8(bytes)) {
    text += bytes.substr(0, *bad);
    text += "\uFFFD";
    bytes.remove_prefix(*bad + 1);
  }
  return text + std::string(bytes);
}

}  // namespace

/// The merges inside one text. A symbol is a stretch of the text; neighbours are linked.
struct SentencePieceModel::Merging {
  struct Symbol {
    std::string_view text;  // empty once it was merged into its left neighbour
    std::int32_t previous = -1;
    std::int32_t next = -1;
    bool frozen = false;  // a user-defined piece takes part in no merge
  };
  struct Candidate {
    float score = 0;
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::size_t size = 0;
    /// The highest score goes first, then the leftmost place.
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  const SentencePieceModel& model;
  std::vector<Symbol> symbols;
  std::priority_queue<Candidate> queue;
  /// What an unused piece was merged from: it is taken apart again in the end.
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> unused;

  Merging(const SentencePieceModel& owner, std::string_view text) : model(owner) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const std::size_t user_defined = model.user_defined_at(text.substr(at));
      if (user_defined > 0) {
        at += user_defined;
      } else {
        static_cast<void>(next_code_point(text, at));
      }
      const auto index = static_cast<std::int32_t>(symbols.size());
      symbols.push_back(
          {text.substr(begin, at - begin), index - 1, at < text.size() ? index + 1 : -1, user_defined > 0});
    }
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      offer(static_cast<std::int32_t>(i), static_cast<std::int32_t>(i) + 1);
    }
  }

  Symbol& at(std::int32_t index) { return symbols[static_cast<std::size_t>(index)]; }

  void offer(std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0 || at(left).frozen || at(right).frozen) return;
    const std::string_view merged(at(left).text.data(), at(left).text.size() + at(right).text.size());
    const auto found = model.mergeable_.find(merged);
    if (found == model.mergeable_.end()) return;
    queue.push({model.pieces_[found->second].score, left, right, merged.size()});
    if (model.type_of(found->second) == PieceType::Unused) unused[merged] = {at(left).text, at(right).text};
  }

  void run() {
    while (!queue.empty()) {
      const Candidate candidate = queue.top();
      queue.pop();
      Symbol& left = at(candidate.left);
      Symbol& right = at(candidate.right);
      // Either side may have been merged otherwise since.
      if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != candidate.size)
        continue;
      left.text = std::string_view(left.text.data(), candidate.size);
      left.next = right.next;
      right.text = {};
      if (left.next >= 0) at(left.next).previous = candidate.left;
      offer(left.previous, candidate.left);
      offer(candidate.left, left.next);
    }
  }

  /// Calls `write(text, id)` for a symbol's pieces; the id is missing for a text without a piece.
  template <class Write>
  void write_pieces(std::string_view text, const Write& write) const {
    const auto id = model.find(text);
    if (id && model.type_of(*id) == PieceType::Unused) {
      if (const auto parts = unused.find(text); parts != unused.end()) {
        write_pieces(parts->second.first, write);
        write_pieces(parts->second.second, write);
        return;
      }
    }
    write(text, id);
  }
};

SentencePieceModel::SentencePieceModel(std::vector<SentencePiece> pieces, SentencePieceOptions options,
                                       std::string_view where)
    : pieces_(std::move(pieces)), options_(std::move(options)) {
  if (pieces_.size() >= static_cast<std::size_t>(kTokenIdLimit)) {
    throw InputError(
        where, std::to_string(pieces_.size()) + " pieces; at most " + std::to_string(kTokenIdLimit - 1));
  }
  index_pieces(where);
  if (unknown_ < 0) throw InputError(where, "no piece is of type 2, unknown");
  index_bytes(where);
}

void SentencePieceModel::index_pieces(std::string_view where) {
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const SentencePiece& piece = pieces_[id];
    const std::string name = "piece " + std::to_string(id);
    if (piece.text.empty()) throw InputError(where, name + " is empty");
    if (first_invalid_utf8(piece.text)) throw InputError(where, name + " is not valid UTF-8");
    if (!std::isfinite(piece.score)) throw InputError(where, name + " has a score that is no number");
    const bool merges = piece.type == PieceType::Normal || piece.type == PieceType::UserDefined ||
                        piece.type == PieceType::Unused;
    IdsByText& ids = merges ? mergeable_ : reserved_;
    if (!ids.emplace(piece.text, static_cast<std::uint32_t>(id)).second) {
      throw InputError(where, name + " (\"" + piece.text + "\") stands twice");
    }
    if (piece.type == PieceType::UserDefined) user_defined_.push_back(piece.text);
    if (piece.type != PieceType::Unknown) continue;
    if (unknown_ >= 0) throw InputError(where, name + " is the second of type 2, unknown");
    unknown_ = static_cast<TokenId>(id);
  }
  std::sort(user_defined_.begin(), user_defined_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

void SentencePieceModel::index_bytes(std::string_view where) {
  if (!options_.byte_fallback) return;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = reserved_.find(byte_token(byte));
    if (found == reserved_.end() || type_of(found->second) != PieceType::Byte) {
      throw InputError(where, "the piece " + byte_token(byte) + " is missing, of type 6, byte");
    }
    byte_ids_.push_back(found->second);
  }
}

std::optional<TokenId> SentencePieceModel::find(std::string_view piece) const {
  for (const IdsByText* ids : {&reserved_, &mergeable_}) {
    if (const auto found = ids->find(piece); found != ids->end()) return found->second;
  }
  return std::nullopt;
}

/// Bytes of the longest user-defined piece that the text begins with.
std::size_t SentencePieceModel::user_defined_at(std::string_view text) const {
  for (const std::string& piece : user_defined_) {
    if (text.starts_with(piece)) return piece.size();
  }
  return 0;
}

std::string SentencePieceModel::normalize(std::string_view text) const {
  std::string kept;
  if (options_.remove_extra_whitespaces) {
    for (const char c : text) {
      if (c != ' ' || (!kept.empty() && kept.back() != ' ')) kept += c;
    }
    text = kept;
  }
  if (text.empty()) return {};
  std::string normalized = options_.add_dummy_prefix ? std::string(kPieceSpace) : std::string();
  normalized += replace_all(text, " ", kPieceSpace);
  while (options_.remove_extra_whitespaces && normalized.ends_with(kPieceSpace)) {
    normalized.resize(normalized.size() - kPieceSpace.size());
  }
  return normalized;
}

void SentencePieceModel::encode(std::string_view text, std::vector<TokenId>& ids) const {
  const std::string normalized = normalize(text);
  Merging merging(*this, normalized);
  merging.run();
  bool after_unknown = false;  // a run of unknown pieces is one
  const auto write = [&](std::string_view piece, std::optional<TokenId> id) {
    const bool unknown = !id || *id == unknown_;
    if (unknown && options_.byte_fallback) {
      for (const char byte : piece) ids.push_back(byte_ids_[static_cast<std::uint8_t>(byte)]);
    } else if (!(unknown && after_unknown)) {
      ids.push_back(unknown ? unknown_ : *id);
    }
    after_unknown = unknown;
  };
  for (const auto& symbol : merging.symbols) {
    if (!symbol.text.empty()) merging.write_pieces(symbol.text, write);
  }
}

std::string SentencePieceModel::decode_piece(std::string_view piece, TokenId id, bool at_beginning,
                                             bool& space_dropped) const {
  space_dropped = false;
  if (type_of(id) == PieceType::Control) return {};
  if (at_beginning && (options_.add_dummy_prefix || options_.remove_extra_whitespaces) &&
      piece.starts_with(kPieceSpace)) {
    piece.remove_prefix(kPieceSpace.size());
    space_dropped = !options_.remove_extra_whitespaces;
  }
  return replace_all(piece, kPieceSpace, " ");
}

std::string SentencePieceModel::decode(const std::vector<std::string>& pieces) const {
  std::string text;
  std::string bytes;
  bool at_beginning = true;
  bool space_dropped = false;
  for (const std::string& piece : pieces) {
    const auto id = find(piece);
    if (id && type_of(*id) == PieceType::Byte) {
      bytes += static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
      continue;
    }
    text += bytes_as_text(bytes);
    bytes.clear();
    if (space_dropped || !text.empty()) at_beginning = false;
    if (!id || *id == unknown_) {
      text += id ? options_.unknown_surface : piece;
      space_dropped = false;
    } else {
      text += decode_piece(piece, *id, at_beginning, space_dropped);
    }
  }
  return text + bytes_as_text(bytes);
}

}  // namespace zerolock
