#include "apps/command/cluster_options.hpp"

#include <openssl/rand.h>

#include <array>
#include <cstdlib>

#include "tensors/base/error.hpp"

namespace zerolock {

void ClusterOptions::declare(OptionTable& table) {
  using Kept = OptionTable::Kept;
  table.path("tls", tls, "folder with certificates, made by zerolock certs", Kept::on_command_line_only);
  table.flag("insecure", insecure, "allow plain connections beyond this machine", Kept::on_command_line_only);
  declare_token(table);
  table.text("link", link, "link to imitate: local, wifi, mobile, constrained, or as in 30ms,50Mbit");
}

void ClusterOptions::declare_token(OptionTable& table) {
  table.text("token", token, "shared secret of a run without --tls; or in ZEROLOCK_TOKEN",
             OptionTable::Kept::on_command_line_only);
}

Security ClusterOptions::security(NodeRole role, const std::string& node) const {
  if (tls && insecure) throw InputError("--insecure", "contradicts --tls");
  if (tls) return Security::tls(find_tls_files(*tls, role, node));
  return Security::plain(insecure ? Security::PlainReach::anywhere : Security::PlainReach::loopback_only);
}

std::string ClusterOptions::shared_token() const {
  if (!token.empty()) return token;
  const char* given = std::getenv(token_variable);
  return given == nullptr ? "" : given;
}

LinkProfile ClusterOptions::link_profile() const {
  return parse_link_profile(link, "--link");
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw RunError("no random bytes to be had");
  std::string text;
  constexpr char digits[] = "0123456789abcdef";
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace zerolock
