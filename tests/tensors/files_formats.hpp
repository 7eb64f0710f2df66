#pragma once
/// Blocks with known contents, for the tests of block formats and of the files that hold them.

#include <ATen/ATen.h>

#include <cstring>
#include <string>
#include <vector>

#include "tensors/files/stored_tensor.hpp"
#include "tests/tensors/files_support.hpp"

namespace zerolock::test {

/// Two blocks whose byte i is (7 i^2 + 37 i + 11) mod 256, except that the scale is 0.0123 and the minimum,
/// where there is one, -0.0456 (twice that in the second block).
inline std::string golden_blocks(StorageFormat format) {
  const std::size_t size = block_bytes(format);
  std::string bytes;
  for (std::size_t i = 0; i < 2 * size; ++i) bytes += static_cast<char>((i * i * 7 + i * 37 + 11) & 255);
  std::vector<std::size_t> halves{0};
  if (format == StorageFormat::q6_k) halves = {208};
  if (format == StorageFormat::q4_1 || format == StorageFormat::q5_1 || format == StorageFormat::q4_k)
    halves = {0, 2};
  const float values[2] = {0.0123F, -0.0456F};
  for (std::size_t block = 0; block < 2; ++block) {
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const at::Half half(values[i] * static_cast<float>(1 + block));
      std::memcpy(bytes.data() + block * size + halves[i], &half.x, sizeof half.x);
    }
  }
  return bytes;
}

}  // namespace zerolock::test
