#pragma once
/// CRC-32C (Castagnoli), as RFC 3720 defines it.

#include <cstdint>
#include <string_view>

namespace zerolock {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace zerolock
