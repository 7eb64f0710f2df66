#pragma once
/// Tokens back to text.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/text_normalizer.hpp"

namespace zerolock {

/// Turns tokens <0x00>..<0xFF> into bytes; each byte of a run of them that is not UTF-8 becomes one U+FFFD.
struct DecodeByteFallback {};

/// Joins all tokens into one.
struct FuseTokens {};

/// Takes up to `start` and `stop` leading and trailing occurrences of a character from each token.
struct StripTokens {
  std::string character;
  std::size_t start = 0;
  std::size_t stop = 0;
};

/// Turns GPT-2's printable characters back into bytes; ill-formed UTF-8 becomes U+FFFD.
struct DecodeByteLevel {};

/// Turns the visible space into a space; at the beginning of the first token it goes, if it was put there.
struct DecodeMetaspace {
  std::string replacement = "\u2581";
  bool drops_first = true;
};

using DecoderStep =
    std::variant<ReplaceText, DecodeByteFallback, FuseTokens, StripTokens, DecodeByteLevel, DecodeMetaspace>;

/// Steps applied one after another to the list of tokens, which is then joined.
class TokenDecoder {
 public:
  /// Without steps the tokens are joined by spaces, as Hugging Face does for a file without a decoder.
  TokenDecoder() = default;
  explicit TokenDecoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {}
  [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;

 private:
  std::vector<DecoderStep> steps_;
};

}  // namespace zerolock
