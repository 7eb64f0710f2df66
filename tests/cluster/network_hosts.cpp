#include "network_hosts.hpp"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace zerolock::testing {

namespace {

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

void require(const std::string& command) {
  if (!succeeds(command)) throw std::runtime_error("failed: " + command);
}

/// One subnet for each process that tests here.
int subnet() {
  return static_cast<int>(::getpid() % 250) + 1;
}

}  // namespace

bool NetworkHosts::possible() {
  if (::geteuid() != 0) return false;
  const std::string prefix = "zp" + std::to_string(::getpid());
  const bool links = succeeds("ip netns add " + prefix + "h") &&
                     succeeds("ip link add " + prefix + "br type bridge") &&
                     succeeds("ip link add " + prefix + "c type veth peer name eth0 netns " + prefix + "h") &&
                     succeeds("ip link set " + prefix + "c master " + prefix + "br up") &&
                     succeeds("ip netns exec " + prefix + "h true");
  succeeds("ip link del " + prefix + "c");
  succeeds("ip link del " + prefix + "br");
  succeeds("ip netns del " + prefix + "h");
  return links;
}

NetworkHosts::NetworkHosts(std::size_t count) : prefix_("zl" + std::to_string(::getpid())), count_(count) {
  require("ip link add " + prefix_ + "br type bridge");
  require("ip link set " + prefix_ + "br up");
  for (std::size_t host = 0; host < count_; ++host) {
    require("ip netns add " + name(host));
    require("ip link add " + cable(host) + " type veth peer name eth0 netns " + name(host));
    require("ip link set " + cable(host) + " master " + prefix_ + "br up");
    require("ip -n " + name(host) + " addr add " + address(host) + "/24 dev eth0");
    require("ip -n " + name(host) + " link set eth0 up");
    require("ip -n " + name(host) + " link set lo up");
  }
}

NetworkHosts::~NetworkHosts() {
  for (std::size_t host = 0; host < count_; ++host) {
    succeeds("ip link del " + cable(host));
    succeeds("ip netns del " + name(host));
  }
  succeeds("ip link del " + prefix_ + "br");
}

std::string NetworkHosts::address(std::size_t host) const {
  return "10.87." + std::to_string(subnet()) + "." + std::to_string(host + 1);
}

std::vector<std::string> NetworkHosts::launcher(std::size_t host) const {
  return {"ip", "netns", "exec", name(host)};
}

void NetworkHosts::cut(std::size_t host) const {
  require("ip link set " + cable(host) + " down");
}

void NetworkHosts::restore(std::size_t host) const {
  require("ip link set " + cable(host) + " up");
}

bool NetworkHosts::limit(std::size_t host, const std::string& rate) const {
  return succeeds("tc -n " + name(host) + " qdisc replace dev eth0 root tbf burst 32kb latency 400ms rate " +
                  rate);
}

std::string NetworkHosts::name(std::size_t host) const {
  return prefix_ + "h" + std::to_string(host);
}

std::string NetworkHosts::cable(std::size_t host) const {
  return prefix_ + "c" + std::to_string(host);
}

}  // namespace zerolock::testing
