#pragma once
/// Prompts, texts and conversations as token ids that fit into a row.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "data/chat_template.hpp"
#include "data/example.hpp"
#include "data/prompt_template.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

/// What became of one source row. `source_line` and `label` of the examples are left to the caller.
struct BuiltExamples {
  enum class Outcome {
    kFits,
    kEmpty,    // nothing to learn: an empty answer, or a single token that nothing predicts
    kTooLong,  // the answer alone, with one token to predict it from, does not fit
  };
  Outcome outcome = Outcome::kFits;
  bool prompt_cut = false;
  std::vector<Example> examples;  // one, of a long text several; none unless kFits
};

/// Holds on to the tokenizer, which must outlive it. Thread-safe.
class ExampleBuilder {
 public:
  /// Throws InputError unless a row has at least two tokens.
  ExampleBuilder(const Tokenizer& tokenizer, std::size_t sequence_length);

  /// Tokens of the prompt (with what the tokenizer puts before a text, e.g. BOS), then those of the answer,
  /// then EOS if asked for. Head and middle are encoded together, tail and answer each by itself. A prompt
  /// that is too long loses tokens at the end of its middle, or at its start (behind BOS) if there is no
  /// middle; an answer never does.
  [[nodiscard]] BuiltExamples prompt_and_answer(const PromptTemplate::Prompt& prompt, std::string_view answer,
                                                bool append_eos) const;

  /// Every token after the first is supervised. A text of more than a row becomes several examples, each of
  /// which begins with the last token of the one before.
  [[nodiscard]] BuiltExamples text(std::string_view text, bool append_eos) const;

  /// A conversation that is too long loses tokens at its start (behind BOS), and where that would reach an
  /// answer, whole turns up to and including the oldest answer; the last answer stays whole. Throws
  /// InputError (a reason without place) if the style needs a BOS or EOS that the tokenizer lacks.
  [[nodiscard]] BuiltExamples conversation(std::span<const ChatTemplate::Stretch> stretches) const;

 private:
  [[nodiscard]] std::vector<TokenId> stretch_ids(const ChatTemplate::Stretch& stretch, bool goes_on) const;
  /// 1 if the first id is a BOS that a cut at the start leaves where it is, else 0.
  [[nodiscard]] std::size_t kept_bos(std::span<const TokenId> ids) const;
  [[nodiscard]] TokenId eos() const;

  const Tokenizer& tokenizer_;
  std::size_t sequence_length_;
};

}  // namespace zerolock
