#include "data/label_answers.hpp"

#include <algorithm>
#include <map>

#include "tensors/base/error.hpp"

namespace zerolock {

std::vector<TokenId> encode_continuation(const Tokenizer& tokenizer, std::string_view text) {
  // A line break joins with no following word in any supported tokenizer. Where it does join (a text that
  // begins with line breaks itself), the text's own ids are the answer.
  constexpr std::string_view kAnchor = "\n";
  const std::vector<TokenId> anchor = tokenizer.encode(kAnchor, false);
  std::vector<TokenId> joined = tokenizer.encode(std::string(kAnchor) + std::string(text), false);
  const bool goes_on =
      joined.size() >= anchor.size() && std::equal(anchor.begin(), anchor.end(), joined.begin());
  if (!goes_on) return tokenizer.encode(text, false);
  joined.erase(joined.begin(), joined.begin() + static_cast<std::ptrdiff_t>(anchor.size()));
  return joined;
}

std::vector<std::vector<TokenId>> label_answers(const Tokenizer& tokenizer,
                                                std::span<const std::string> labels,
                                                const PromptTemplate* prompt) {
  std::vector<std::vector<TokenId>> answers;
  answers.reserve(labels.size());
  for (const std::string& label : labels) {
    answers.push_back(encode_continuation(tokenizer, prompt ? prompt->class_answer(label) : " " + label));
  }
  return answers;
}

std::vector<TokenId> label_token_ids(const Tokenizer& tokenizer, std::span<const std::string> labels,
                                     const PromptTemplate* prompt) {
  const std::vector<std::vector<TokenId>> answers = label_answers(tokenizer, labels, prompt);
  std::vector<TokenId> ids;
  std::map<TokenId, std::string> taken;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (answers[i].size() != 1) {
      throw InputError(
          "label \"" + labels[i] + "\"",
          "its answer is " + std::to_string(answers[i].size()) +
              " tokens, but a readout restricted to the labels needs one token each (choose other labels "
              "or the static head)");
    }
    const auto [place, is_new] = taken.emplace(answers[i][0], labels[i]);
    if (!is_new) {
      throw InputError("label \"" + labels[i] + "\"",
                       "has the same token as label \"" + place->second + "\"");
    }
    ids.push_back(answers[i][0]);
  }
  return ids;
}

}  // namespace zerolock
