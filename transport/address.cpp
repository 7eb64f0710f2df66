#include "transport/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::size_t host_name_max = 253;

bool is_ipv6(const std::string& host) {
  const std::string without_zone = host.substr(0, host.find('%'));
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, without_zone.c_str(), &ignored) == 1;
}

bool is_host_name(std::string_view host) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return host.size() <= host_name_max && host.front() != '-' && host.front() != '.' &&
         std::all_of(host.begin(), host.end(), is_allowed);
}

/// Digits and dots only: meant as an IPv4 address, so it has to be one.
bool looks_like_ipv4(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_ipv4(const std::string& host) {
  in_addr ignored{};
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1;
}

}  // namespace

std::string Address::text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Address parse_address(std::string_view text, std::string_view where) {
  const auto refuse = [&](const std::string& reason) {
    return InputError(where, "'" + std::string(text) + "' " + reason +
                                 "; give HOST:PORT, as in 192.168.1.7:7000, "
                                 "[fe80::1]:7000 or laptop:7000");
  };
  Address address;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) throw refuse("has no closing bracket");
    address.host = text.substr(1, close - 1);
    if (!is_ipv6(address.host)) throw refuse("has no IPv6 address between its brackets");
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty() || rest.front() != ':') throw refuse("has no port");
    port = rest.substr(1);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) throw refuse("has no port");
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (address.host.find(':') != std::string::npos) {
      throw refuse("has several colons: an IPv6 address stands in brackets");
    }
    if (address.host.empty()) throw refuse("has no host");
    if (looks_like_ipv4(address.host) ? !is_ipv4(address.host) : !is_host_name(address.host)) {
      throw refuse("has no good host");
    }
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    throw refuse("has no port from 0 to 65535");
  }
  return address;
}

bool is_loopback(const Address& address) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (::inet_pton(AF_INET6, address.host.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return address.host == "localhost";
}

std::string host_towards(const Address& other, std::string_view where) {
  const auto refuse = [&](const std::string& reason) {
    throw InputError(std::string(where), "no way to " + other.text() + ": " + reason);
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(other.host.c_str(), std::to_string(other.port).c_str(), &hints, &found);
  if (failed != 0) refuse(::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  // Connecting a datagram socket chooses the route and sends nothing.
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) refuse(std::strerror(errno));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* own_address = reinterpret_cast<sockaddr*>(&own);
  const bool known = ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                     ::getsockname(socket, own_address, &length) == 0;
  const std::string problem = known ? "" : std::strerror(errno);
  ::close(socket);
  if (!known) refuse(problem);
  char text[NI_MAXHOST] = {};
  const int unnamed = ::getnameinfo(own_address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (unnamed != 0) refuse(::gai_strerror(unnamed));
  return text;
}

}  // namespace zerolock
