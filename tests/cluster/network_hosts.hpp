#pragma once
/// Hosts of a network that exist for one test: network namespaces on one bridge. Needs root.

#include <string>
#include <vector>

namespace zerolock::testing {

class NetworkHosts {
 public:
  /// Whether this process may make them here.
  static bool possible();

  /// Hosts 0..count-1 with the addresses 10.87.N.1, 10.87.N.2, ... for some free N.
  explicit NetworkHosts(std::size_t count);
  ~NetworkHosts();
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;

  [[nodiscard]] std::string address(std::size_t host) const;
  /// The command in front of a program that runs on the host.
  [[nodiscard]] std::vector<std::string> launcher(std::size_t host) const;
  /// Takes the host's cable out, and puts it back.
  void cut(std::size_t host) const;
  void restore(std::size_t host) const;
  /// Limits what the host sends to a rate as `tc` says it: "20mbit". False if the kernel cannot.
  [[nodiscard]] bool limit(std::size_t host, const std::string& rate) const;

 private:
  [[nodiscard]] std::string name(std::size_t host) const;
  [[nodiscard]] std::string cable(std::size_t host) const;

  std::string prefix_;
  std::size_t count_;
};

}  // namespace zerolock::testing
