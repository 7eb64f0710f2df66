#include "transport/byte_stream.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/openssl_objects.hpp"

namespace zerolock {

namespace {

constexpr std::size_t buffers_per_write = 64;

StreamResult failure(std::string reason) {
  StreamResult result;
  result.state = StreamState::failed;
  result.reason = std::move(reason);
  return result;
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

std::string text_of_error(int error) {
  if (error == ECONNRESET || error == EPIPE) return "the peer broke the connection";
  return std::strerror(error);
}

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}

  StreamResult handshake() override { return {}; }

  StreamResult read(std::span<std::byte> buffer) override {
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count == 0) return {StreamState::ended, 0, {}, false};
    return result(count, StreamState::wants_read);
  }

  StreamResult write(const std::vector<std::span<const std::byte>>& buffers) override {
    std::array<iovec, buffers_per_write> vectors;
    const std::size_t used = std::min(buffers.size(), vectors.size());
    for (std::size_t i = 0; i < used; ++i) {
      vectors[i] = {const_cast<std::byte*>(buffers[i].data()), buffers[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = used;
    return result(::sendmsg(socket_, &message, MSG_NOSIGNAL), StreamState::wants_write);
  }

  [[nodiscard]] std::optional<NodeIdentity> certified_peer() const override { return std::nullopt; }

 private:
  static StreamResult result(ssize_t count, StreamState otherwise) {
    if (count >= 0) return {StreamState::done, static_cast<std::size_t>(count), {}, false};
    if (would_block(errno) || errno == EINTR) return {otherwise, 0, {}, false};
    return failure(text_of_error(errno));
  }

  int socket_;
};

// -- OpenSSL's way to the socket: as its own socket BIO, but a broken connection raises no signal --------

/// What OpenSSL's calls write to and read from.
struct RecordSocket {
  explicit RecordSocket(int socket) : descriptor(socket) {}

  const int descriptor;
  /// Records that are written together, waiting[sent..]: each alone would cost a system call and a segment.
  std::vector<std::byte> waiting;
  std::size_t sent = 0;
  bool gathers = false;  // records wait for flush()
  /// Bytes that were read together and not yet asked for: read[begin, end). OpenSSL can read ahead itself,
  /// but moves all that it has to the front of its buffer for every record.
  std::vector<std::byte> read;
  std::size_t begin = 0;
  std::size_t end = 0;

  /// Takes some bytes, or what send() says otherwise. Those that wait go first.
  ssize_t take(const char* bytes, std::size_t count) {
    if (!gathers && waiting.empty()) return ::send(descriptor, bytes, count, MSG_NOSIGNAL);
    const auto* begin_bytes = reinterpret_cast<const std::byte*>(bytes);
    waiting.insert(waiting.end(), begin_bytes, begin_bytes + count);
    return static_cast<ssize_t>(count);
  }

  /// Sends all that waits; otherwise what send() says.
  ssize_t flush() {
    while (sent < waiting.size()) {
      const ssize_t count = ::send(descriptor, waiting.data() + sent, waiting.size() - sent, MSG_NOSIGNAL);
      if (count < 0) return count;
      sent += static_cast<std::size_t>(count);
    }
    waiting.clear();
    sent = 0;
    return 0;
  }

  /// At least one byte, or what recv() says otherwise.
  ssize_t receive(char* bytes, std::size_t count) {
    if (read.empty()) return ::recv(descriptor, bytes, count, 0);
    if (begin == end) {
      const ssize_t received = ::recv(descriptor, read.data(), read.size(), 0);
      if (received <= 0) return received;
      begin = 0;
      end = static_cast<std::size_t>(received);
    }
    const std::size_t given = std::min(count, end - begin);
    std::memcpy(bytes, read.data() + begin, given);
    begin += given;
    return static_cast<ssize_t>(given);
  }
};

RecordSocket& socket_of(BIO* bio) {
  return *static_cast<RecordSocket*>(BIO_get_data(bio));
}

int bio_write(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t written = socket_of(bio).take(bytes, static_cast<std::size_t>(count));
  if (written < 0 && (would_block(errno) || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(written);
}

int bio_read(BIO* bio, char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t read = socket_of(bio).receive(bytes, static_cast<std::size_t>(count));
  if (read < 0 && (would_block(errno) || errno == EINTR)) BIO_set_retry_read(bio);
  if (read == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(read);
}

long bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_socket_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without signals");
  BIO_meth_set_write(method, bio_write);
  BIO_meth_set_read(method, bio_read);
  BIO_meth_set_ctrl(method, bio_control);
  return method;
}

/// The socket must stay where it is as long as the BIO is used.
BIO* make_socket_bio(RecordSocket& socket) {
  static BIO_METHOD* const method = make_socket_method();  // lives as long as the process
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw RunError("OpenSSL cannot serve a socket: " + openssl_reason());
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  return bio;
}

class TlsStream : public ByteStream {
 public:
  TlsStream(int socket, std::shared_ptr<Security::Context> context, StreamSide side)
      : socket_(socket), context_(std::move(context)), session_(SSL_new(context_->tls.get())) {
    if (!session_) throw RunError("OpenSSL cannot begin a session: " + openssl_reason());
    BIO* bio = make_socket_bio(socket_);
    SSL_set_bio(session_.get(), bio, bio);
    side == StreamSide::dialler ? SSL_set_connect_state(session_.get())
                                : SSL_set_accept_state(session_.get());
  }

  StreamResult handshake() override {
    ERR_clear_error();
    const int outcome = SSL_do_handshake(session_.get());
    if (outcome != 1) return unfinished(outcome);
    // From here on many records are read at once; before, a stranger costs no such buffer.
    socket_.read.resize(read_ahead_bytes);
    return {};
  }

  StreamResult read(std::span<std::byte> buffer) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int outcome = SSL_read_ex(session_.get(), buffer.data(), buffer.size(), &count);
    return outcome == 1 ? StreamResult{StreamState::done, count, {}, false} : unfinished(outcome);
  }

  StreamResult write(const std::vector<std::span<const std::byte>>& buffers) override {
    // What waits holds these buffers' first bytes already, if the socket took not all of it before.
    if (sealed_ == 0) {
      StreamResult failed = seal(buffers);
      if (failed.state != StreamState::done) return failed;
    }
    if (socket_.flush() < 0) {
      if (would_block(errno) || errno == EINTR) return {StreamState::wants_write, 0, {}, false};
      return failure(text_of_error(errno));
    }
    return {StreamState::done, std::exchange(sealed_, 0), {}, false};
  }

  [[nodiscard]] std::optional<NodeIdentity> certified_peer() const override {
    X509* certificate = SSL_get0_peer_certificate(session_.get());
    return certificate == nullptr ? std::nullopt : certified_node(certificate);
  }

 private:
  static constexpr std::size_t record_bytes = 16384;  // TLS's own limit
  static constexpr std::size_t read_ahead_bytes = std::size_t{256} << 10;

  using BufferList = std::vector<std::span<const std::byte>>;

  /// Encrypts all bytes of the list, which are not many more than a write's worth, into what waits.
  StreamResult seal(const BufferList& buffers) {
    ERR_clear_error();
    socket_.gathers = true;
    StreamResult result;
    for (Place next{buffers.begin(), 0}; next.buffer != buffers.end();) {
      const std::span<const std::byte> record = record_at(next, buffers.end());
      std::size_t count = 0;
      const int outcome = SSL_write_ex(session_.get(), record.data(), record.size(), &count);
      if (outcome != 1) {
        result = unfinished(outcome);
        break;
      }
      sealed_ += count;
      next.skip(count);
    }
    socket_.gathers = false;
    return result;
  }

  /// A byte of a list of buffers.
  struct Place {
    BufferList::const_iterator buffer;
    std::size_t offset;

    void skip(std::size_t bytes) {
      offset += bytes;
      while (offset > 0 && offset >= buffer->size()) offset -= (buffer++)->size();
    }
  };

  /// What goes into the next record, in one piece: small buffers go together, since each record costs.
  std::span<const std::byte> record_at(const Place& place, BufferList::const_iterator end) {
    const std::span<const std::byte> first = place.buffer->subspan(place.offset);
    if (first.size() >= record_bytes) return first.first(record_bytes);
    if (place.buffer + 1 == end) return first;
    record_.assign(first.begin(), first.end());
    for (auto buffer = place.buffer + 1; buffer != end && record_.size() < record_bytes; ++buffer) {
      const std::size_t count = std::min(buffer->size(), record_bytes - record_.size());
      record_.insert(record_.end(), buffer->begin(), buffer->begin() + static_cast<std::ptrdiff_t>(count));
    }
    return record_;
  }

  /// Why a call did not succeed.
  StreamResult unfinished(int outcome) {
    const int system_error = errno;
    switch (SSL_get_error(session_.get(), outcome)) {
      case SSL_ERROR_WANT_READ:
        return {StreamState::wants_read, 0, {}, false};
      case SSL_ERROR_WANT_WRITE:
        return {StreamState::wants_write, 0, {}, false};
      case SSL_ERROR_ZERO_RETURN:
        return {StreamState::ended, 0, {}, false};
      case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        if (system_error == 0) return {StreamState::ended, 0, {}, false};
        return failure(text_of_error(system_error));
      default:
        return security_failure();
    }
  }

  StreamResult security_failure() {
    const unsigned long code = ERR_peek_error();
    const int reason = ERR_GET_REASON(code);
    const std::string words = openssl_reason();
    StreamResult result;
    result.state = StreamState::failed;
    result.about_security = true;
    const long verdict = SSL_get_verify_result(session_.get());
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
      result.reason =
          std::string("the peer's certificate is not accepted: ") + X509_verify_cert_error_string(verdict);
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
      result.reason = "the peer has no certificate";
    } else if (reason >= SSL_AD_REASON_OFFSET) {
      result.reason = "the peer does not accept this side's certificate or TLS (" + words + ")";
    } else {
      result.reason = "the peer does not speak TLS 1.3 as it should (" + words + ")";
    }
    return result;
  }

  RecordSocket socket_;
  std::shared_ptr<Security::Context> context_;
  TlsSessionObject session_;  // refers to the socket
  std::vector<std::byte> record_;
  std::size_t sealed_ = 0;  // bytes of the buffers to be written that are among what waits
};

}  // namespace

std::unique_ptr<ByteStream> make_byte_stream(int socket, const Security& security, StreamSide side) {
  if (!security.is_tls()) return std::make_unique<PlainStream>(socket);
  return std::make_unique<TlsStream>(socket, security.context(), side);
}

}  // namespace zerolock
