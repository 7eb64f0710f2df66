#pragma once
/// A vocabulary and the order in which pairs of its tokens are merged.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer.hpp"

namespace zerolock {

/// No id of any kind of vocabulary reaches it, so that tables by id stay small whatever a file claims.
inline constexpr TokenId kTokenIdLimit = TokenId{1} << 24;

/// The token that stands for a byte: <0x00> to <0xFF>.
std::string byte_token(std::size_t byte);

struct BytePairOptions {
  std::optional<std::string> unknown;  // token for what the vocabulary lacks; without one it is dropped
  bool fuse_unknown = false;           // one such token for a run of characters
  bool byte_fallback = false;          // write what the vocabulary lacks as <0x00>..<0xFF>
  bool ignore_merges = false;          // a word that is a token as a whole needs no merges
};

/// Byte-pair encoding, with ids equal to those of Hugging Face's tokenizers library. Immutable.
class BytePairModel {
 public:
  using Vocabulary = std::vector<std::pair<std::string, TokenId>>;
  /// In order of rank; of two equal pairs the later one counts.
  using Merges = std::vector<std::pair<std::string, std::string>>;

  /// `where` names the file in errors. Throws InputError for ids out of range, ids or tokens that stand
  /// twice, and merges of or into tokens that the vocabulary lacks.
  BytePairModel(const Vocabulary& vocabulary, const Merges& merges, BytePairOptions options,
                std::string_view where);

  /// Appends the ids of one word (well-formed UTF-8). Time grows with n log n of its characters.
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;
  /// The token of an id; empty if no token has it.
  [[nodiscard]] std::optional<std::string_view> token(TokenId id) const;
  /// One more than the largest id.
  [[nodiscard]] TokenId size() const { return static_cast<TokenId>(tokens_.size()); }

 private:
  struct Merge {
    std::uint32_t rank = 0;
    std::uint32_t merged = 0;
  };
  struct Symbol {
    std::uint32_t id = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
    bool merged_away = false;
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  void add_tokens(const Vocabulary& vocabulary, std::string_view where);
  void add_merges(const Merges& merges, std::string_view where);
  [[nodiscard]] std::vector<Symbol> symbols_of(std::string_view word) const;
  [[nodiscard]] bool append_bytes(std::string_view character, std::vector<Symbol>& symbols) const;
  void merge_all(std::vector<Symbol>& symbols) const;
  [[nodiscard]] const Merge* merge_of(std::uint32_t left, std::uint32_t right) const;

  BytePairOptions options_;
  std::optional<std::uint32_t> unknown_id_;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> ids_;
  std::vector<std::optional<std::string>> tokens_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::vector<std::optional<std::uint32_t>> byte_tokens_;  // ids of <0x00>..<0xFF>
};

}  // namespace zerolock
