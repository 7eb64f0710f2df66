#include "transport/certificates.hpp"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/address.hpp"
#include "transport/openssl_objects.hpp"

namespace zerolock {

namespace {

constexpr mode_t key_mode = 0600;
constexpr mode_t certificate_mode = 0644;

struct CertifiedKey {
  CertificateObject certificate;
  KeyObject key;
};

struct NewFile {
  std::filesystem::path path;
  std::string content;
  mode_t mode;
};

void require(bool good, const char* what) {
  if (!good) throw RunError(std::string("OpenSSL cannot ") + what + ": " + openssl_reason());
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OpensslObject<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "add an extension");
}

/// A certificate for a new key with everything but extensions and signature.
CertifiedKey begin_certificate(const std::string& name, const ValidityPeriod& validity) {
  CertifiedKey made{CertificateObject(X509_new()), KeyObject(EVP_EC_gen("P-256"))};
  require(made.certificate && made.key, "make a key");
  X509* certificate = made.certificate.get();
  std::uint64_t serial = 0;
  require(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "draw a serial number");
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  require(X509_set_version(certificate, X509_VERSION_3) == 1 &&
              X509_gmtime_adj(X509_getm_notBefore(certificate), validity.begin.count()) != nullptr &&
              X509_gmtime_adj(X509_getm_notAfter(certificate), validity.end.count()) != nullptr &&
              X509_set_pubkey(certificate, made.key.get()) == 1,
          "fill a certificate");
  require(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0) == 1,
          "name a certificate");
  return made;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  require(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
              X509_sign(certificate, key, EVP_sha256()) > 0,
          "sign a certificate");
}

CertifiedKey make_authority(const ValidityPeriod& validity) {
  CertifiedKey made = begin_certificate("zerolock cluster authority", validity);
  X509* certificate = made.certificate.get();
  add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(certificate, certificate, NID_subject_key_identifier, "hash");
  sign(certificate, certificate, made.key.get());
  return made;
}

/// "URI:zerolock:executor/node-a,DNS:node-a,IP:10.0.0.2"
std::string alternative_names(const CertificateRequest& request) {
  std::string names = "URI:zerolock:" + to_string(request.node.role) + "/" + request.node.name;
  for (const std::string& host : request.hosts) {
    const bool is_number =
        host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
    names += (is_number ? ",IP:" : ",DNS:") + host;
  }
  return names;
}

CertifiedKey make_node(const CertificateRequest& request, const CertifiedKey& authority,
                       const ValidityPeriod& validity) {
  CertifiedKey made = begin_certificate(request.node.name, validity);
  X509* certificate = made.certificate.get();
  X509* issuer = authority.certificate.get();
  add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(certificate, issuer, NID_subject_key_identifier, "hash");
  add_extension(certificate, issuer, NID_authority_key_identifier, "keyid");
  add_extension(certificate, issuer, NID_subject_alt_name, alternative_names(request));
  sign(certificate, issuer, authority.key.get());
  return made;
}

/// PEM text of what `write` writes.
template <class Write>
std::string pem(const Write& write) {
  const BioObject bio(BIO_new(BIO_s_mem()));
  require(bio && write(bio.get()) == 1, "write PEM");
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(length)};
}

void add_files(std::vector<NewFile>& files, const std::filesystem::path& folder, const std::string& name,
               const CertifiedKey& made) {
  files.push_back({folder / (name + ".pem"),
                   pem([&](BIO* bio) { return PEM_write_bio_X509(bio, made.certificate.get()); }),
                   certificate_mode});
  files.push_back({folder / (name + ".key"), pem([&](BIO* bio) {
                     return PEM_write_bio_PrivateKey(bio, made.key.get(), nullptr, nullptr, 0, nullptr,
                                                     nullptr);
                   }),
                   key_mode});
}

/// Makes a file that is not there yet, with its mode from the first byte on.
void write_new_file(const NewFile& file) {
  const auto fail = [&] { throw RunError(file.path.string() + ": " + std::strerror(errno)); };
  const int descriptor = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.mode);
  if (descriptor < 0) fail();
  std::string_view rest = file.content;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool written = rest.empty() && ::fsync(descriptor) == 0;
  const int error = errno;
  ::close(descriptor);
  if (written) return;
  ::unlink(file.path.c_str());
  errno = error;
  fail();
}

/// All of them or none.
void write_new_files(const std::vector<NewFile>& files) {
  for (const NewFile& file : files) {
    if (std::filesystem::exists(file.path)) {
      throw InputError(file.path.string(), "is there already; choose another name or folder, or remove it");
    }
  }
  std::vector<std::filesystem::path> written;
  try {
    for (const NewFile& file : files) {
      write_new_file(file);
      written.push_back(file.path);
    }
  } catch (...) {
    std::error_code ignored;
    for (const std::filesystem::path& path : written) std::filesystem::remove(path, ignored);
    throw;
  }
}

void check_requests(const std::vector<CertificateRequest>& requests) {
  std::set<std::string> names{"ca"};
  for (const CertificateRequest& request : requests) {
    const std::string& name = request.node.name;
    if (!is_node_name(name)) {
      throw InputError("'" + name + "'", "a node's name is 1 to 64 letters, digits and '-_.'");
    }
    if (!names.insert(name).second) throw InputError(name, "is named twice, or is the authority's own name");
    for (const std::string& host : request.hosts) {
      if (host.find('%') != std::string::npos) {
        throw InputError(host, "an address with a zone means another machine elsewhere");
      }
      // A host is good if it is good in an address.
      const bool brackets = host.find(':') != std::string::npos;
      parse_address(brackets ? "[" + host + "]:0" : host + ":0", "node " + name);
    }
  }
}

CertifiedKey read_authority(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "ca.pem";
  CertifiedKey authority{read_certificate(file), read_key(folder / "ca.key")};
  check_certificate(authority.certificate.get(), file, authority.certificate.get(), file);
  if (X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    ERR_clear_error();
    throw InputError((folder / "ca.key").string(), "is not the key of the certificate " + file.string());
  }
  return authority;
}

}  // namespace

void make_certificates(const std::filesystem::path& folder, const std::vector<CertificateRequest>& requests,
                       const ValidityPeriod& validity) {
  check_requests(requests);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(folder.string(), "cannot be made: " + error.message());
  std::vector<NewFile> files;
  CertifiedKey authority;
  if (std::filesystem::exists(folder / "ca.pem")) {
    authority = read_authority(folder);
  } else {
    // The authority outlives clocks that differ and nodes that tests let expire.
    ValidityPeriod longer;
    longer.end = std::max(validity.end, longer.end);
    authority = make_authority(longer);
    add_files(files, folder, "ca", authority);
  }
  for (const CertificateRequest& request : requests) {
    add_files(files, folder, request.node.name, make_node(request, authority, validity));
  }
  write_new_files(files);
}

}  // namespace zerolock
