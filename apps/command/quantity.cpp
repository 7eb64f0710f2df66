#include "apps/command/quantity.hpp"

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using Units = std::vector<std::pair<std::string, double>>;

const Units byte_units{{"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},    {"TB", 1e12},
                       {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
const Units rate_units{{"Kbit/s", 1e3 / 8}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8},
                       {"KB/s", 1e3},       {"MB/s", 1e6},       {"GB/s", 1e9},
                       {"KiB/s", 0x1p10},   {"MiB/s", 0x1p20},   {"GiB/s", 0x1p30}};

/// A number above 0, perhaps a blank, and a unit.
double parse(const std::string& text, const Units& units, const std::string& example,
             const std::string& where) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(error == std::errc() ? end : text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' '));
  std::string allowed;
  for (const auto& [name, factor] : units) {
    if (name == unit && number > 0 && std::isfinite(number * factor)) return number * factor;
    allowed += (allowed.empty() ? "" : ", ") + name;
  }
  throw InputError(
      where, "'" + text + "' is not a number above 0 with a unit, like " + example + "; units: " + allowed);
}

}  // namespace

std::int64_t parse_bytes(const std::string& text, const std::string& where) {
  const double bytes = parse(text, byte_units, "4GiB", where);
  if (bytes < 1 || bytes >= 0x1p62) {
    throw InputError(where, "'" + text + "' is out of range; allowed: 1B to less than 2^62 bytes");
  }
  return static_cast<std::int64_t>(bytes);
}

double parse_bytes_per_second(const std::string& text, const std::string& where) {
  return parse(text, rate_units, "1Gbit/s", where);
}

}  // namespace zerolock
