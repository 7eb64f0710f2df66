#include "tests/supervision/socket_counts.hpp"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include <filesystem>
#include <string>

namespace zerolock::test {
namespace {

std::vector<int> descriptors() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

template <class Call>
std::uint16_t port_by(Call call, int descriptor) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (call(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return address.sin_family == AF_INET ? ntohs(address.sin_port) : std::uint16_t{0};
}

}  // namespace

std::vector<SocketCount> socket_counts() {
  std::vector<SocketCount> counts;
  for (const int descriptor : descriptors()) {
    SocketCount count;
    count.local_port = port_by(::getsockname, descriptor);
    count.remote_port = port_by(::getpeername, descriptor);
    tcp_info info{};
    socklen_t length = sizeof info;
    if (count.local_port == 0 || count.remote_port == 0 ||
        ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
      continue;
    }
    count.bytes_sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
    count.bytes_received = info.tcpi_bytes_received;
    counts.push_back(count);
  }
  return counts;
}

std::vector<std::uint16_t> listening_ports() {
  std::vector<std::uint16_t> ports;
  for (const int descriptor : descriptors()) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0) {
      ports.push_back(port_by(::getsockname, descriptor));
    }
  }
  return ports;
}

}  // namespace zerolock::test
