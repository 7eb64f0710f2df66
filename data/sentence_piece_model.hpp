#pragma once
/// Byte-pair encoding by the scores of pieces, as the sentencepiece library does it.
///
/// The library itself is not linked: Debian's build exports the symbols of the Protocol Buffers copy inside
/// it, and those take the place of the ones that LibTorch needs, so that a program with both ends before it
/// begins.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer.hpp"

namespace zerolock {

/// Numbered as in sentencepiece_model.proto and in GGUF's tokenizer.ggml.token_type.
enum class PieceType : std::int64_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::Normal;
};

struct SentencePieceOptions {
  bool byte_fallback = false;                // write characters without a piece as bytes
  bool add_dummy_prefix = true;              // begin every text with a space
  bool remove_extra_whitespaces = true;      // at both ends, and of runs all but one
  std::string unknown_surface = " \u2047 ";  // what the unknown piece decodes to
};

/// The visible character that stands for a space in pieces.
inline constexpr std::string_view kPieceSpace = "\u2581";

/// Immutable. A piece's id is its place in the list.
class SentencePieceModel {
 public:
  /// `where` names the file in errors. Throws InputError for pieces that are empty, stand twice, are not
  /// UTF-8 or have a score that is no number, if not exactly one is of type Unknown, and for byte pieces that
  /// are not all 256.
  SentencePieceModel(std::vector<SentencePiece> pieces, SentencePieceOptions options, std::string_view where);

  /// Appends the ids of a text (well-formed UTF-8). Time grows with n log n of its length.
  void encode(std::string_view text, std::vector<TokenId>& ids) const;
  /// The text of pieces. Texts that are no pieces stand for themselves; each byte that is not part of a UTF-8
  /// sequence becomes U+FFFD.
  [[nodiscard]] std::string decode(const std::vector<std::string>& pieces) const;

  [[nodiscard]] std::optional<TokenId> find(std::string_view piece) const;
  [[nodiscard]] const std::vector<SentencePiece>& pieces() const { return pieces_; }
  [[nodiscard]] const SentencePieceOptions& options() const { return options_; }
  [[nodiscard]] TokenId unknown() const { return unknown_; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using IdsByText = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;
  struct Merging;

  void index_pieces(std::string_view where);
  void index_bytes(std::string_view where);
  [[nodiscard]] std::string normalize(std::string_view text) const;
  [[nodiscard]] std::size_t user_defined_at(std::string_view text) const;
  [[nodiscard]] PieceType type_of(TokenId id) const { return pieces_[static_cast<std::size_t>(id)].type; }
  [[nodiscard]] std::string decode_piece(std::string_view piece, TokenId id, bool at_beginning,
                                         bool& space_dropped) const;

  std::vector<SentencePiece> pieces_;
  SentencePieceOptions options_;
  TokenId unknown_ = -1;
  IdsByText mergeable_;                    // normal, user-defined and unused pieces
  IdsByText reserved_;                     // all others
  std::vector<TokenId> byte_ids_;          // by byte, if there are byte pieces
  std::vector<std::string> user_defined_;  // longest first
};

/// What a .model file says.
struct SentencePieceFile {
  SentencePieceModel model;
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
};

/// Reads a sentencepiece .model file. Throws InputError if it is broken, is not of type BPE, or normalizes by
/// a table.
SentencePieceFile read_sentence_piece_file(const std::filesystem::path& file);

}  // namespace zerolock
