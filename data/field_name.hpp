#pragma once
/// Names as they are compared: without surrounding blanks, ASCII letters in lower case.

#include <string>
#include <string_view>

namespace zerolock {

/// `text` without blanks, tabs and line breaks at both ends; a view into it.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// ASCII letters in lower case, all other bytes as they are.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace zerolock
