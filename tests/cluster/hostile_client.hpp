#pragma once
/// Connections that a stranger, or a node that has gone bad, makes to a cluster's ports.

#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <vector>

#include "tests/transport/network_support.hpp"
#include "transport/security.hpp"

namespace zerolock::testing {

/// TLS over a socket with a certificate of one's own, and no question about the other side's.
class TlsSocket {
 public:
  /// Shakes hands; the listener may still turn the certificate away.
  TlsSocket(const Address& address, const TlsFiles& files);

  /// False if the peer has closed.
  bool send(std::span<const std::byte> bytes);
  /// Reads until the peer closes.
  void read_to_end();

 private:
  template <auto release>
  struct Release {
    template <class Object>
    void operator()(Object* object) const {
      release(object);
    }
  };

  test::RawSocket socket_;
  std::unique_ptr<SSL_CTX, Release<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Release<SSL_free>> session_;
};

/// The first bytes of a TLS handshake.
std::vector<std::byte> client_hello();

}  // namespace zerolock::testing
