#include "data/utf8.hpp"

#include <array>
#include <cstdint>
#include <cstdio>

namespace zerolock {
namespace {

/// Length of the sequence a lead byte announces and the range of its second byte, which is where the table
/// rules out overlong forms, surrogates and values above U+10FFFF. Length 0: no lead byte.
struct Lead {
  std::size_t length = 0;
  std::uint8_t second_low = 0x80;
  std::uint8_t second_high = 0xBF;
};

Lead lead_of(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto byte = static_cast<std::uint8_t>(bytes[at]);
    if (byte < 0x80) {
      ++at;
      continue;
    }
    const Lead lead = lead_of(byte);
    if (lead.length == 0 || bytes.size() - at < lead.length) return at;
    const auto second = static_cast<std::uint8_t>(bytes[at + 1]);
    if (second < lead.second_low || second > lead.second_high) return at;
    for (std::size_t i = 2; i < lead.length; ++i) {
      if ((static_cast<std::uint8_t>(bytes[at + i]) & 0xC0) != 0x80) return at;
    }
    at += lead.length;
  }
  return std::nullopt;
}

std::string utf8_problem(std::string_view bytes) {
  const std::optional<std::size_t> at = first_invalid_utf8(bytes);
  if (!at) return {};
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "0x%02X",
                static_cast<unsigned>(static_cast<std::uint8_t>(bytes[*at])));
  return std::string("byte ") + hex.data() + " at offset " + std::to_string(*at) + " is not UTF-8";
}

}  // namespace zerolock
