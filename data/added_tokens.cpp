#include "data/added_tokens.hpp"

#include <algorithm>
#include <cstdint>

#include "data/unicode.hpp"

namespace zerolock {
namespace {

/// Where the last character of a text that is not empty begins.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    std::size_t before = last_character(text.substr(0, begin));
    if (is_word_character(next_code_point(text, before))) return false;
  }
  return end == text.size() || !is_word_character(next_code_point(text, end));
}

/// Where the white space that ends at `end` begins, not before `floor`.
std::size_t white_space_before(std::string_view text, std::size_t end, std::size_t floor) {
  while (end > floor) {
    const std::size_t begin = last_character(text.substr(0, end));
    std::size_t at = begin;
    if (begin < floor || !is_white_space(next_code_point(text, at))) break;
    end = begin;
  }
  return end;
}

std::size_t white_space_behind(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!is_white_space(next_code_point(text, next))) break;
    begin = next;
  }
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer& normalizer)
    : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_content_.emplace(token.content, i);
    std::string text = token.normalized ? normalizer.apply(token.content) : token.content;
    if (text.empty()) continue;
    Patterns& patterns = token.normalized ? normalized_ : raw_;
    auto& with_first_byte = patterns[static_cast<std::uint8_t>(text[0])];
    with_first_byte.push_back({std::move(text), i});
  }
  for (Patterns* patterns : {&raw_, &normalized_}) {
    for (auto& list : *patterns) {
      std::stable_sort(list.begin(), list.end(),
                       [](const Pattern& a, const Pattern& b) { return a.text.size() > b.text.size(); });
    }
  }
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedTokens::Pattern* AddedTokens::match(std::string_view text, std::size_t at,
                                               const Patterns& patterns) {
  for (const Pattern& pattern : patterns[static_cast<std::uint8_t>(text[at])]) {
    if (text.substr(at, pattern.text.size()) == pattern.text) return &pattern;
  }
  return nullptr;
}

std::vector<TextSegment> AddedTokens::split(std::string_view text, const Patterns& patterns) const {
  std::vector<TextSegment> segments;
  std::size_t taken = 0;  // everything before it is in a segment
  for (std::size_t at = 0; at < text.size();) {
    const Pattern* pattern = match(text, at, patterns);
    if (pattern == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + pattern->text.size();
    at = end;
    const AddedToken& token = tokens_[pattern->token];
    if (begin < taken || (token.single_word && !stands_alone(text, begin, end))) continue;
    if (token.strips_left) begin = white_space_before(text, begin, taken);
    if (token.strips_right) end = white_space_behind(text, end);
    if (begin > taken) segments.push_back({std::nullopt, text.substr(taken, begin - taken)});
    segments.push_back({token.id, text.substr(begin, end - begin)});
    taken = end;
  }
  if (taken < text.size()) segments.push_back({std::nullopt, text.substr(taken)});
  return segments;
}

}  // namespace zerolock
