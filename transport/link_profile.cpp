#include "transport/link_profile.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using std::chrono::nanoseconds;

constexpr double megabit = 1e6 / 8;  // bytes

struct NamedProfile {
  std::string_view name;
  LinkProfile profile;
};
const std::array<NamedProfile, 4> named_profiles{{
    {"local", {}},
    {"wifi", {std::chrono::milliseconds(2), static_cast<std::uint64_t>(1000 * megabit)}},
    {"mobile", {std::chrono::milliseconds(10), static_cast<std::uint64_t>(200 * megabit)}},
    {"constrained", {std::chrono::milliseconds(30), static_cast<std::uint64_t>(50 * megabit)}},
}};

using Unit = std::pair<std::string_view, double>;
constexpr std::array<Unit, 3> time_units{{{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};  // in nanoseconds
constexpr std::array<Unit, 8> rate_units{{{"bit", 1.0 / 8},
                                          {"kbit", 1e3 / 8},
                                          {"Mbit", megabit},
                                          {"Gbit", 1e9 / 8},
                                          {"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9}}};  // in bytes a second

constexpr double latency_max = 1e9;  // a second: well below any limit of silence
constexpr double rate_min = 64;      // below, a beat would take longer than any limit of silence
constexpr double rate_max = 1e12;
constexpr std::size_t piece_max = std::size_t{256} << 10;
constexpr std::size_t piece_min = 32;
constexpr double piece_seconds = 0.02;

/// "30ms" by the table of units; less than zero if it is not such a text.
template <std::size_t count>
double quantity(std::string_view text, const std::array<Unit, count>& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return -1;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& known : units) {
    if (known.first == unit) return number * known.second;
  }
  return -1;
}

}  // namespace

LinkProfile parse_link_profile(std::string_view text, std::string_view where) {
  for (const NamedProfile& named : named_profiles) {
    if (named.name == text) return named.profile;
  }
  const auto refuse = [&](const std::string& reason) {
    return InputError(where, "'" + std::string(text) + "' " + reason +
                                 "; allowed are local, wifi, mobile, constrained, or latency and rate as in "
                                 "30ms,50Mbit");
  };
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) throw refuse("is no link");
  const double latency = quantity(text.substr(0, comma), time_units);
  const double rate = quantity(text.substr(comma + 1), rate_units);
  if (latency < 0 || latency > latency_max) throw refuse("has no latency from 0ms to 1s");
  if (rate < rate_min || rate > rate_max) throw refuse("has no rate from 64B to 1000GB a second");
  LinkProfile profile;
  profile.latency = nanoseconds(std::llround(latency));
  profile.bytes_per_second = static_cast<std::uint64_t>(std::llround(rate));
  return profile;
}

std::string to_string(const LinkProfile& profile) {
  for (const NamedProfile& named : named_profiles) {
    if (named.profile == profile) return std::string(named.name);
  }
  std::array<char, 32> latency{};
  const double microseconds = static_cast<double>(profile.latency.count()) / 1e3;
  const auto end = std::to_chars(latency.data(), latency.data() + latency.size(), microseconds).ptr;
  return std::string(latency.data(), end) + "us," + std::to_string(profile.bytes_per_second) + "B";
}

LinkSchedule::TimePoint LinkSchedule::transmit(TimePoint ready, std::size_t bytes) {
  const TimePoint begin = std::max(ready, free_at_);
  free_at_ = begin;
  if (profile_.bytes_per_second > 0) {
    const double seconds = static_cast<double>(bytes) / static_cast<double>(profile_.bytes_per_second);
    free_at_ += nanoseconds(std::llround(seconds * 1e9));
  }
  return free_at_ + profile_.latency;
}

std::size_t LinkSchedule::piece_bytes() const {
  if (profile_.bytes_per_second == 0) return piece_max;
  const double bytes = static_cast<double>(profile_.bytes_per_second) * piece_seconds;
  return std::clamp(static_cast<std::size_t>(bytes), piece_min, piece_max);
}

}  // namespace zerolock
