#include "apps/report/crc32c.hpp"

#include <array>

namespace zerolock {

namespace {

constexpr std::uint32_t reversed_polynomial = 0x82F63B78U;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? reversed_polynomial : 0U);
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = ~0U;
  for (const char byte : bytes) {
    rest = table[(rest ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (rest >> 8U);
  }
  return ~rest;
}

}  // namespace zerolock
