#pragma once
/// Lists of small or repeating numbers in few bytes.

#include <cstdint>
#include <vector>

#include "transport/wire_archive.hpp"

namespace zerolock {

/// A number 0..2^63-1 in 7 bits a byte, lowest first.
void write_varint(WireWriter& writer, std::uint64_t value);
std::uint64_t read_varint(WireReader& reader, std::uint64_t most);

/// Numbers >= 0 without their count: each as its difference to the least, or as its place in the list of
/// distinct values, in as few bits as the largest needs, whichever is shorter.
void write_packed(WireWriter& writer, const std::vector<std::int64_t>& numbers);
/// `count` numbers, each at most `most`. The caller has bounded `count`: equal numbers take no bytes. Throws
/// WireError.
std::vector<std::int64_t> read_packed(WireReader& reader, std::size_t count, std::int64_t most);

}  // namespace zerolock
