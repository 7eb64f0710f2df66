#pragma once
/// OpenSSL's objects with owners, for the files that speak to OpenSSL.

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>
#include <string>

#include "transport/security.hpp"

namespace zerolock {

template <auto release>
struct OpensslRelease {
  template <class Object>
  void operator()(Object* object) const {
    release(object);
  }
};
template <class Object, auto release>
using OpensslObject = std::unique_ptr<Object, OpensslRelease<release>>;

using BioObject = OpensslObject<BIO, BIO_free_all>;
using CertificateObject = OpensslObject<X509, X509_free>;
using KeyObject = OpensslObject<EVP_PKEY, EVP_PKEY_free>;
using TlsContextObject = OpensslObject<SSL_CTX, SSL_CTX_free>;
using TlsSessionObject = OpensslObject<SSL, SSL_free>;

struct Security::Context {
  TlsContextObject tls;
};

/// OpenSSL's own words for the first error in its queue, which is emptied.
inline std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

/// Who a certificate names: the URI "zerolock:ROLE/NAME", whose name is the subject's too. Nothing if it does
/// not name exactly one node.
std::optional<NodeIdentity> certified_node(X509* certificate);

/// Throw InputError naming the file.
CertificateObject read_certificate(const std::filesystem::path& file);
KeyObject read_key(const std::filesystem::path& file);
/// Throws InputError unless the certificate is valid now and signed by the authority.
void check_certificate(X509* certificate, const std::filesystem::path& file, X509* authority,
                       const std::filesystem::path& authority_file);

}  // namespace zerolock
