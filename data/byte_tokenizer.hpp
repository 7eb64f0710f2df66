#pragma once
/// A tokenizer for models that have none: every byte is a token. What such a model is told means nothing.

#include <cstdint>
#include <string>

namespace zerolock {

/// Ids that the tokenizer uses: 0 to 255, each the byte's value.
inline constexpr std::int64_t byte_tokenizer_vocabulary = 256;

/// The text of a tokenizer.json (byte-level BPE without merges, no special tokens).
std::string byte_tokenizer_json();

}  // namespace zerolock
