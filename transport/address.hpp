#pragma once
/// Where a process listens: "host:port".

#include <cstdint>
#include <string>
#include <string_view>

namespace zerolock {

/// A host name, an IPv4 address or an IPv6 address (kept without brackets), and a port.
struct Address {
  std::string host;
  std::uint16_t port = 0;  // 0: the system chooses, where a process listens

  bool operator==(const Address&) const = default;
  /// "host:port", "[v6]:port"
  [[nodiscard]] std::string text() const;
};

/// Reads "host:port", "1.2.3.4:port", "[::1]:port" or "[fe80::1%eth0]:port". Throws InputError that begins
/// with `where` (the flag's name) and says what is wrong.
Address parse_address(std::string_view text, std::string_view where);

/// True for "localhost" and the addresses 127.0.0.0/8 and ::1 (also mapped into IPv6).
[[nodiscard]] bool is_loopback(const Address& address);

/// This machine's own address on the way to another one: where that one, or others beside it, can reach it.
/// Sends nothing. Throws InputError that begins with `where` if there is no way there.
std::string host_towards(const Address& other, std::string_view where);

}  // namespace zerolock
