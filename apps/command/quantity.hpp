#pragma once
/// Amounts with a unit, as people write them.

#include <cstdint>
#include <string>

namespace zerolock {

/// "4GiB", "512 MiB", "1.5GB", "17 B": B, and K, M, G, T with B (a thousand) or iB (1024). Throws InputError
/// that begins with `where`: not a number above 0 with one of these units, or 2^62 bytes or more.
std::int64_t parse_bytes(const std::string& text, const std::string& where);

/// Bytes a second of "1Gbit/s", "100 Mbit/s", "125MB/s", "64MiB/s".
double parse_bytes_per_second(const std::string& text, const std::string& where);

}  // namespace zerolock
