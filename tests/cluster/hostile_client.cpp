#include "hostile_client.hpp"

#include <array>
#include <stdexcept>

namespace zerolock::testing {

TlsSocket::TlsSocket(const Address& address, const TlsFiles& files)
    : socket_(address), context_(SSL_CTX_new(TLS_client_method())) {
  if (SSL_CTX_use_certificate_file(context_.get(), files.certificate.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    throw std::runtime_error("no certificate in " + files.certificate.string());
  }
  session_.reset(SSL_new(context_.get()));
  if (SSL_set_fd(session_.get(), socket_.descriptor()) != 1 || SSL_connect(session_.get()) != 1) {
    throw std::runtime_error("no TLS handshake with " + address.text());
  }
}

bool TlsSocket::send(std::span<const std::byte> bytes) {
  return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

void TlsSocket::read_to_end() {
  std::array<std::byte, 4096> bytes{};
  while (SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0) continue;
}

std::vector<std::byte> client_hello() {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* session = SSL_new(context);
  BIO* sent = BIO_new(BIO_s_mem());
  SSL_set_bio(session, BIO_new(BIO_s_mem()), sent);  // the session owns both
  SSL_connect(session);
  std::vector<std::byte> bytes(BIO_pending(sent));
  BIO_read(sent, bytes.data(), static_cast<int>(bytes.size()));
  SSL_free(session);
  SSL_CTX_free(context);
  return bytes;
}

}  // namespace zerolock::testing
