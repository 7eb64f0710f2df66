#pragma once
/// The properties of characters that tokenizers split text by, over Unicode's general categories.

#include <cstddef>
#include <string>
#include <string_view>

namespace zerolock {

/// The code point that begins at byte `at` of well-formed UTF-8; moves `at` behind it.
char32_t next_code_point(std::string_view text, std::size_t& at);

/// Appends a code point's UTF-8 form.
void append_code_point(std::string& text, char32_t code_point);

/// `\p{L}`
bool is_letter(char32_t code_point);
/// `\p{N}`: decimal digits, letter numbers and other numbers.
bool is_number(char32_t code_point);
/// `\s`: the property White_Space.
bool is_white_space(char32_t code_point);
/// `\w`: alphabetic characters, marks, decimal digits, connectors and joiners.
bool is_word_character(char32_t code_point);

/// The bytes as text: each maximal part of an ill-formed sequence becomes one U+FFFD (Unicode 15,
/// section 3.9, the practice that Rust's and Python's lossy decoders share).
std::string replace_invalid_utf8(std::string_view bytes);

enum class NormalizationForm { C, D, KC, KD };

/// The text in one of Unicode's normalization forms. Takes well-formed UTF-8; a NUL character is kept.
std::string normalize(std::string_view text, NormalizationForm form);

}  // namespace zerolock
