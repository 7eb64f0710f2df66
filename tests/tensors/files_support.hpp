#pragma once
/// What the tests of files share: a folder that vanishes with the test, and bytes to break.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_folder.hpp"

namespace zerolock::test {

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// The bytes of a number as it lies in memory (little-endian).
template <class Number>
std::string raw(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The given file of tests/fixtures.
inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / name;
}

}  // namespace zerolock::test
