#include "transport/security.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "tensors/base/error.hpp"
#include "transport/openssl_objects.hpp"

namespace zerolock {

namespace {

constexpr std::string_view uri_scheme = "zerolock:";

/// "zerolock:executor/node-a" -> executor node-a.
std::optional<NodeIdentity> node_of_uri(std::string_view uri) {
  if (uri.substr(0, uri_scheme.size()) != uri_scheme) return std::nullopt;
  uri.remove_prefix(uri_scheme.size());
  const std::size_t slash = uri.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view role = uri.substr(0, slash);
  NodeIdentity node;
  node.name = uri.substr(slash + 1);
  if (!is_node_name(node.name)) return std::nullopt;
  for (const NodeRole known : {NodeRole::coordinator, NodeRole::executor}) {
    if (role != to_string(known)) continue;
    node.role = known;
    return node;
  }
  return std::nullopt;
}

std::string common_name(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return {};
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

BioObject open_file(const std::filesystem::path& file) {
  BioObject bio(BIO_new_file(file.c_str(), "r"));
  if (!bio) {
    const std::string reason = openssl_reason();
    std::error_code ignored;
    throw InputError(file.string(),
                     std::filesystem::exists(file, ignored) ? "cannot be read: " + reason : "no such file");
  }
  return bio;
}

/// Nobody is asked for a password: an encrypted key is an error.
int no_password(char*, int, int, void*) {
  return -1;
}

TlsContextObject make_context(const TlsFiles& files, X509* authority, X509* certificate, EVP_PKEY* key) {
  TlsContextObject context(SSL_CTX_new(TLS_method()));
  const bool made =
      context && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(
          context.get(), "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority) == 1 &&
      SSL_CTX_use_certificate(context.get(), certificate) == 1 &&
      SSL_CTX_use_PrivateKey(context.get(), key) == 1;
  if (!made) throw InputError(files.certificate.string(), "cannot be used for TLS: " + openssl_reason());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // The authority signs nodes itself: there are no chains.
  SSL_CTX_set_verify_depth(context.get(), 1);
  // Each connection proves both certificates anew.
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  return context;
}

std::vector<std::filesystem::path> executor_certificates(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(folder, error)) {
    if (item.path().extension() != ".pem" || item.path().filename() == "ca.pem") continue;
    const std::optional<NodeIdentity> node = certified_node(read_certificate(item.path()).get());
    if (node && node->role == NodeRole::executor) found.push_back(item.path());
  }
  if (error) throw InputError(folder.string(), error.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::optional<NodeIdentity> certified_node(X509* certificate) {
  using NamesObject = OpensslObject<GENERAL_NAMES, GENERAL_NAMES_free>;
  const NamesObject names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (!names) return std::nullopt;
  std::optional<NodeIdentity> node;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* uri = name->d.uniformResourceIdentifier;
    if (node) return std::nullopt;
    node = node_of_uri({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                        static_cast<std::size_t>(ASN1_STRING_length(uri))});
    if (!node) return std::nullopt;
  }
  if (node && node->name != common_name(certificate)) return std::nullopt;
  return node;
}

CertificateObject read_certificate(const std::filesystem::path& file) {
  const BioObject bio = open_file(file);
  CertificateObject certificate(PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr));
  if (!certificate) throw InputError(file.string(), "is no certificate in PEM: " + openssl_reason());
  return certificate;
}

KeyObject read_key(const std::filesystem::path& file) {
  const BioObject bio = open_file(file);
  KeyObject key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (!key) throw InputError(file.string(), "is no unencrypted private key in PEM: " + openssl_reason());
  return key;
}

void check_certificate(X509* certificate, const std::filesystem::path& file, X509* authority,
                       const std::filesystem::path& authority_file) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    throw InputError(file.string(), "the certificate is not yet valid; is this machine's clock right?");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    throw InputError(file.string(), "the certificate has expired; make a new one with zerolock certs");
  }
  if (X509_verify(certificate, X509_get0_pubkey(authority)) != 1) {
    ERR_clear_error();
    throw InputError(file.string(),
                     "the certificate was not signed by the authority in " + authority_file.string());
  }
}

TlsFiles find_tls_files(const std::filesystem::path& folder, NodeRole role, const std::string& name) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw InputError(folder.string(), "no such folder; zerolock certs makes one");
  }
  if (!name.empty() && !is_node_name(name)) throw InputError(name, "is no node's name");
  std::filesystem::path certificate = folder / ((name.empty() ? "coordinator" : name) + ".pem");
  if (name.empty() && role == NodeRole::executor) {
    const std::vector<std::filesystem::path> found = executor_certificates(folder);
    if (found.size() != 1) {
      throw InputError(folder.string(), "holds the certificates of " + std::to_string(found.size()) +
                                            " executors; say which one this is by its name");
    }
    certificate = found.front();
  }
  std::filesystem::path key = certificate;
  key.replace_extension(".key");
  return {folder / "ca.pem", certificate, key};
}

Security Security::plain(PlainReach reach) {
  Security security;
  security.reach_ = reach;
  return security;
}

Security Security::tls(const TlsFiles& files) {
  const CertificateObject authority = read_certificate(files.authority);
  check_certificate(authority.get(), files.authority, authority.get(), files.authority);
  const CertificateObject certificate = read_certificate(files.certificate);
  check_certificate(certificate.get(), files.certificate, authority.get(), files.authority);
  const KeyObject key = read_key(files.key);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    throw InputError(files.key.string(), "is not the key of the certificate " + files.certificate.string());
  }
  Security security;
  security.identity_ = certified_node(certificate.get());
  if (!security.identity_) {
    throw InputError(files.certificate.string(), "names no role and node; zerolock certs makes certificates");
  }
  security.context_ = std::make_shared<Context>();
  security.context_->tls = make_context(files, authority.get(), certificate.get(), key.get());
  return security;
}

std::string ExpectedPeer::mismatch(const NodeIdentity& found) const {
  if (found.role == role && (!name || *name == found.name)) return {};
  return "the peer is " + to_string(found) + ", expected was " + to_string(role) + (name ? " " + *name : "");
}

}  // namespace zerolock
