#pragma once
/// The kernel's own counts of this process's TCP connections.

#include <cstdint>
#include <vector>

namespace zerolock::test {

/// One end of a connection.
struct SocketCount {
  std::uint16_t local_port = 0;
  std::uint16_t remote_port = 0;
  std::uint64_t bytes_sent = 0;  // without what was sent again
  std::uint64_t bytes_received = 0;
};

/// Of all established connections, in no order.
std::vector<SocketCount> socket_counts();
/// Ports on which this process listens.
std::vector<std::uint16_t> listening_ports();

}  // namespace zerolock::test
