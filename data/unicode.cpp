#include "data/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

utf8proc_category_t category_of(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

/// How many bytes from `at` on belong to one sequence, and whether that sequence is complete. An incomplete
/// one is the longest beginning of a well-formed sequence, and at least one byte.
struct Sequence {
  std::size_t length = 1;
  bool complete = false;
};

Sequence sequence_at(std::string_view bytes, std::size_t at) {
  const std::uint8_t lead = byte_at(bytes, at);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is where overlong forms, surrogates and values above U+10FFFF are ruled out.
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  std::size_t length = 1;
  while (length < wanted && at + length < bytes.size()) {
    const std::uint8_t next = byte_at(bytes, at + length);
    if (next < low || next > high) return {length, false};
    low = 0x80;
    high = 0xBF;
    ++length;
  }
  return {length, length == wanted};
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const std::uint8_t lead = byte_at(text, at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  ZEROLOCK_INVARIANT(lead >= 0xC2 && length <= text.size() - at, "text is not well-formed UTF-8");
  char32_t code_point = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (byte_at(text, at + i) & 0x3FU);
  at += length;
  return code_point;
}

void append_code_point(std::string& text, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

bool is_letter(char32_t code_point) {
  if (code_point < 0x80) return (code_point | 0x20) >= 'a' && (code_point | 0x20) <= 'z';
  const auto category = category_of(code_point);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_number(char32_t code_point) {
  if (code_point < 0x80) return code_point >= '0' && code_point <= '9';
  const auto category = category_of(code_point);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_white_space(char32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D);
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 || code_point == 0x2029 ||
         code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

bool is_word_character(char32_t code_point) {
  const auto category = category_of(code_point);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) return true;  // L, M, Nd, Nl
  if (category == UTF8PROC_CATEGORY_PC) return true;
  if (code_point == 0x200C || code_point == 0x200D) return true;
  // The circled and squared Latin letters are symbols by category but alphabetic by property.
  return (code_point >= 0x24B6 && code_point <= 0x24E9) || (code_point >= 0x1F130 && code_point <= 0x1F149) ||
         (code_point >= 0x1F150 && code_point <= 0x1F169) || (code_point >= 0x1F170 && code_point <= 0x1F189);
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    text += sequence.complete ? bytes.substr(at, sequence.length) : kReplacementCharacter;
    at += sequence.length;
  }
  return text;
}

std::string normalize(std::string_view text, NormalizationForm form) {
  // ASCII is the same in every form.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<std::uint8_t>(c) < 0x80; })) {
    return std::string(text);
  }
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalizationForm::C || form == NormalizationForm::KC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalizationForm::KC || form == NormalizationForm::KD) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* bytes = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &bytes,
                                   static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(bytes, &std::free);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  ZEROLOCK_INVARIANT(length >= 0, utf8proc_errmsg(length));
  return std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

}  // namespace zerolock
