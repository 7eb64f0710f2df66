#pragma once
/// How a connection is protected and how its peer proves who it is.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "transport/hello.hpp"

namespace zerolock {

/// The three files of a node: the cluster's own authority, the node's certificate and its key (PEM).
struct TlsFiles {
  std::filesystem::path authority;
  std::filesystem::path certificate;
  std::filesystem::path key;
};

/// The files in a folder made by `zerolock certs` for this role. `name` may be empty for a coordinator, and
/// for an executor if the folder holds one executor's certificate only. Throws InputError.
TlsFiles find_tls_files(const std::filesystem::path& folder, NodeRole role, const std::string& name);

/// Either none (plain TCP, whose peers show a token) or TLS 1.3 with a certificate on both sides. Cheap to
/// copy; immutable.
class Security {
 public:
  /// Where plain connections may go.
  enum class PlainReach { loopback_only, anywhere };

  /// No encryption: what the user must ask for on anything but loopback (--insecure).
  static Security plain(PlainReach reach = PlainReach::loopback_only);
  /// Reads and checks the files. Throws InputError that names the file and what is wrong: missing,
  /// unreadable, not PEM, expired, not yet valid, key of another certificate, certificate of another
  /// authority, no role and name in it.
  static Security tls(const TlsFiles& files);

  [[nodiscard]] bool is_tls() const { return context_ != nullptr; }
  [[nodiscard]] PlainReach plain_reach() const { return reach_; }
  /// Who this side is by its own certificate; nothing without TLS.
  [[nodiscard]] const std::optional<NodeIdentity>& identity() const { return identity_; }

  /// The prepared OpenSSL context; null without TLS. For the network's own use.
  struct Context;
  [[nodiscard]] const std::shared_ptr<Context>& context() const { return context_; }

 private:
  Security() = default;
  PlainReach reach_ = PlainReach::loopback_only;
  std::shared_ptr<Context> context_;
  std::optional<NodeIdentity> identity_;
};

/// Whom a dialler wants to reach. The name may be left open.
struct ExpectedPeer {
  NodeRole role = NodeRole::coordinator;
  std::optional<std::string> name;

  /// Empty if that is who is expected, else one line.
  [[nodiscard]] std::string mismatch(const NodeIdentity& found) const;
};

}  // namespace zerolock
