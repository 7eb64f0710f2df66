#pragma once
/// Whether bytes are text.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace zerolock {

/// Offset of the first byte that does not begin or continue a well-formed UTF-8 sequence (Unicode 15, table
/// 3-7): overlong forms, surrogates, values above U+10FFFF and cut-off sequences are all refused. Empty if
/// all is well.
std::optional<std::size_t> first_invalid_utf8(std::string_view bytes);

/// The same in words for a user ("byte 0xE9 at offset 17 is not UTF-8"); empty if all is well.
std::string utf8_problem(std::string_view bytes);

}  // namespace zerolock
