#pragma once
/// The processing steps of a tokenizer.json: "normalizer", "pre_tokenizer", "post_processor" and "decoder".
/// A type that is not supported throws InputError with its name and those that are.

#include <vector>

#include "data/pre_tokenizer.hpp"
#include "data/text_normalizer.hpp"
#include "data/token_decoder.hpp"
#include "data/tokenizer.hpp"
#include "tensors/files/json_object.hpp"

namespace zerolock {

/// What a post-processor puts around a single text.
struct SpecialFrame {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
};

/// Each takes the whole file and reads its own key, which may be absent.
TextNormalizer read_normalizer(const JsonObject& file);
PreTokenizer read_pre_tokenizer(const JsonObject& file);
SpecialFrame read_post_processor(const JsonObject& file);
TokenDecoder read_decoder(const JsonObject& file);

}  // namespace zerolock
