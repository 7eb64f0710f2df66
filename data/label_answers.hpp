#pragma once
/// The token ids of answers.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/prompt_template.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

/// Ids of a text that goes on from an earlier one, without anything a tokenizer puts before a text of its own
/// (BOS, or sentencepiece's blank, which would turn " World" into two pieces). For byte-level tokenizers
/// these are simply the ids of the text.
std::vector<TokenId> encode_continuation(const Tokenizer& tokenizer, std::string_view text);

/// The ids of each class's answer, in order, as training rows hold them: of a blank and the label, or as the
/// template says. Ranking classes by likelihood works with answers of any length.
std::vector<std::vector<TokenId>> label_answers(const Tokenizer& tokenizer,
                                                std::span<const std::string> labels,
                                                const PromptTemplate* prompt = nullptr);

/// The one id of each class's answer, for a readout over those ids alone. Such a readout has no row for a
/// second token of an answer, so every answer has to be a single token and no two may be the same. Throws
/// InputError naming the label that does not fit.
std::vector<TokenId> label_token_ids(const Tokenizer& tokenizer, std::span<const std::string> labels,
                                     const PromptTemplate* prompt = nullptr);

}  // namespace zerolock
