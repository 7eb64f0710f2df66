#pragma once
/// A private authority for one cluster, and a certificate for each of its nodes.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "transport/hello.hpp"

namespace zerolock {

/// A node to be certified. The certificate names it three ways: subject CN = name, a URI
/// "zerolock:ROLE/NAME" (which peers check), and its hosts for other programs.
struct CertificateRequest {
  NodeIdentity node;
  std::vector<std::string> hosts;  // DNS names or IP addresses
};

/// How long certificates are valid, counted from now. A begin in the future or an end in the past is what
/// tests make.
struct ValidityPeriod {
  std::chrono::seconds begin{-3600};  // clocks of a LAN differ
  std::chrono::seconds end{std::chrono::hours(24 * 730)};
};

/// Writes ca.pem, ca.key and NAME.pem, NAME.key for each node into a folder that is made if needed; keys can
/// be read by their owner only. An authority that is there already is used again, so that nodes can be added;
/// a certificate that is there already is an error. Throws InputError, and RunError if a file cannot be
/// written.
void make_certificates(const std::filesystem::path& folder, const std::vector<CertificateRequest>& requests,
                       const ValidityPeriod& validity = {});

}  // namespace zerolock
