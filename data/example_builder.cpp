#include "data/example_builder.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "data/label_answers.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Outcome = BuiltExamples::Outcome;

void erase(std::vector<TokenId>& ids, std::size_t begin, std::size_t end) {
  ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.begin() + static_cast<std::ptrdiff_t>(end));
}

void append(std::vector<TokenId>& ids, const std::vector<TokenId>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

BuiltExamples nothing(Outcome outcome) {
  BuiltExamples built;
  built.outcome = outcome;
  return built;
}

/// Takes tokens begin..end-1 out of an example; they hold no part of a span.
void cut(Example& example, std::size_t begin, std::size_t end) {
  erase(example.tokens, begin, end);
  for (TokenSpan& span : example.supervised) {
    span.begin -= end - begin;
    span.end -= end - begin;
  }
}

}  // namespace

ExampleBuilder::ExampleBuilder(const Tokenizer& tokenizer, std::size_t sequence_length)
    : tokenizer_(tokenizer), sequence_length_(sequence_length) {
  if (sequence_length < 2) {
    throw InputError("sequence length",
                     "is " + std::to_string(sequence_length) + ", must be 2 or more tokens");
  }
}

std::size_t ExampleBuilder::kept_bos(std::span<const TokenId> ids) const {
  const std::optional<TokenId> bos = tokenizer_.bos();
  return bos && !ids.empty() && ids.front() == *bos ? 1 : 0;
}

TokenId ExampleBuilder::eos() const {
  const std::optional<TokenId> id = tokenizer_.eos();
  if (!id) throw InputError("the tokenizer names no end-of-text token to end an answer with");
  return *id;
}

BuiltExamples ExampleBuilder::prompt_and_answer(const PromptTemplate::Prompt& prompt,
                                                std::string_view answer_text, bool append_eos) const {
  std::vector<TokenId> answer = encode_continuation(tokenizer_, answer_text);
  if (answer.empty()) return nothing(Outcome::kEmpty);
  if (append_eos) answer.push_back(eos());
  std::vector<TokenId> ids = tokenizer_.encode(prompt.head + prompt.middle, true);
  std::vector<TokenId> tail = encode_continuation(tokenizer_, prompt.tail);
  const std::size_t prompt_tokens = ids.size() + tail.size();
  if (answer.size() + std::min<std::size_t>(prompt_tokens, 1) > sequence_length_)
    return nothing(Outcome::kTooLong);
  if (answer.size() + prompt_tokens < 2) return nothing(Outcome::kEmpty);

  BuiltExamples built;
  const std::size_t room = sequence_length_ - answer.size();
  built.prompt_cut = prompt_tokens > room;
  if (built.prompt_cut && !prompt.middle.empty()) {
    if (tail.size() > room) erase(tail, 0, tail.size() - room);
    ids.resize(std::min(ids.size(), room - tail.size()));
  }
  append(ids, tail);
  if (ids.size() > room) {
    const std::size_t kept = std::min(kept_bos(ids), room - 1);
    erase(ids, kept, kept + ids.size() - room);
  }
  const std::size_t begin = ids.size();
  append(ids, answer);
  const TokenSpan span{begin, ids.size()};
  built.examples.push_back({std::move(ids), {span}, 0, std::nullopt});
  return built;
}

BuiltExamples ExampleBuilder::text(std::string_view text, bool append_eos) const {
  std::vector<TokenId> ids = tokenizer_.encode(text, true);
  if (ids.size() <= kept_bos(ids)) return nothing(Outcome::kEmpty);
  if (append_eos) ids.push_back(eos());
  if (ids.size() < 2) return nothing(Outcome::kEmpty);
  BuiltExamples built;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += sequence_length_ - 1) {
    const std::size_t end = std::min(begin + sequence_length_, ids.size());
    Example example;
    example.tokens.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                          ids.begin() + static_cast<std::ptrdiff_t>(end));
    example.supervised.push_back({1, end - begin});
    built.examples.push_back(std::move(example));
  }
  return built;
}

std::vector<TokenId> ExampleBuilder::stretch_ids(const ChatTemplate::Stretch& stretch, bool goes_on) const {
  switch (stretch.kind) {
    case ChatTemplate::Stretch::Kind::kBos:
      if (!tokenizer_.bos())
        throw InputError("the model's chat template needs a BOS token and the tokenizer names none");
      return {*tokenizer_.bos()};
    case ChatTemplate::Stretch::Kind::kEos:
      return {eos()};
    case ChatTemplate::Stretch::Kind::kText:
      return goes_on ? encode_continuation(tokenizer_, stretch.text) : tokenizer_.encode(stretch.text, false);
  }
  ZEROLOCK_INVARIANT(false, "a stretch is of a known kind");
  return {};
}

BuiltExamples ExampleBuilder::conversation(std::span<const ChatTemplate::Stretch> stretches) const {
  Example example;
  bool goes_on = false;  // text follows text; after BOS or EOS a text begins anew
  for (const ChatTemplate::Stretch& stretch : stretches) {
    const std::size_t begin = example.tokens.size();
    append(example.tokens, stretch_ids(stretch, goes_on));
    goes_on = stretch.kind == ChatTemplate::Stretch::Kind::kText;
    if (!stretch.supervised || example.tokens.size() == begin) continue;
    const bool adjoins = !example.supervised.empty() && example.supervised.back().end == begin;
    if (adjoins) {
      example.supervised.back().end = example.tokens.size();
    } else {
      example.supervised.push_back({begin, example.tokens.size()});
    }
  }
  if (example.supervised.empty()) return nothing(Outcome::kEmpty);

  BuiltExamples built;
  while (example.tokens.size() > sequence_length_) {
    built.prompt_cut = true;
    const std::size_t excess = example.tokens.size() - sequence_length_;
    const TokenSpan oldest = example.supervised.front();
    const std::size_t kept = kept_bos(example.tokens);
    if (oldest.begin > excess) {
      cut(example, std::min(kept, oldest.begin - excess), std::min(kept, oldest.begin - excess) + excess);
    } else if (example.supervised.size() > 1) {
      example.supervised.erase(example.supervised.begin());
      const bool next_has_bos = kept_bos(std::span(example.tokens).subspan(oldest.end)) == 1;
      cut(example, next_has_bos ? 0 : kept, oldest.end);
    } else {
      return nothing(Outcome::kTooLong);
    }
  }
  built.examples.push_back(std::move(example));
  return built;
}

}  // namespace zerolock
