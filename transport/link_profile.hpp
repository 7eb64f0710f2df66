#pragma once
/// Slower networks than the one at hand, imitated by the sender.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zerolock {

/// A link's one-way latency and its rate. The default adds nothing.
struct LinkProfile {
  std::chrono::nanoseconds latency{0};
  std::uint64_t bytes_per_second = 0;  // 0: as fast as it goes

  bool operator==(const LinkProfile&) const = default;
  [[nodiscard]] bool shapes() const { return latency.count() > 0 || bytes_per_second > 0; }
};

/// "local", "wifi" (2 ms, 1000 Mbit/s), "mobile" (10 ms, 200 Mbit/s), "constrained" (30 ms, 50 Mbit/s), or
/// latency and rate as in "30ms,50Mbit" (us, ms, s; bit, kbit, Mbit, Gbit, B, kB, MB). Throws InputError that
/// begins with `where`.
LinkProfile parse_link_profile(std::string_view text, std::string_view where);
/// A text that parse_link_profile() reads back as the same profile, where it gave it.
std::string to_string(const LinkProfile& profile);

/// When bytes leave. A piece occupies the link for bytes / rate and arrives one latency after its last byte
/// went in; the next piece may go in meanwhile, so latency delays and never lowers the rate. Knows no clock.
class LinkSchedule {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit LinkSchedule(const LinkProfile& profile) : profile_(profile) {}

  /// A piece that was ready at `ready` goes in next. Returns when it arrives: when it is to be written.
  TimePoint transmit(TimePoint ready, std::size_t bytes);
  /// When the next piece can go in.
  [[nodiscard]] TimePoint free_at() const { return free_at_; }
  /// The size of a piece: small enough that a receiver behind a slow link hears something several times in
  /// any limit of silence, large enough that a fast one costs few system calls.
  [[nodiscard]] std::size_t piece_bytes() const;

 private:
  LinkProfile profile_;
  TimePoint free_at_{};
};

}  // namespace zerolock
