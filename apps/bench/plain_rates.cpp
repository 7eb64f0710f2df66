#include "apps/bench/plain_rates.hpp"

#include <openssl/evp.h>

#include <array>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <future>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

// -- Asio ------------------------------------------------------------------------------------------------

struct PlainLoopback::State {
  explicit State(std::size_t bytes) : sender(context), receiver(context), sent(bytes), received(bytes) {
    using asio::ip::tcp;
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    sender.connect(acceptor.local_endpoint());
    acceptor.accept(receiver);
    sender.set_option(tcp::no_delay(true));
  }

  asio::io_context context;
  asio::ip::tcp::socket sender;
  asio::ip::tcp::socket receiver;
  std::vector<std::byte> sent;
  std::vector<std::byte> received;
};

PlainLoopback::PlainLoopback(std::size_t message_bytes) {
  try {
    state_ = std::make_unique<State>(message_bytes);
  } catch (const std::system_error& error) {
    throw RunError(std::string("loopback: ") + error.what());
  }
}

PlainLoopback::~PlainLoopback() = default;

double PlainLoopback::transfer(std::uint64_t count) {
  const Clock::time_point begin = Clock::now();
  try {
    auto reading = std::async(std::launch::async, [this, count] {
      for (std::uint64_t i = 0; i < count; ++i) {
        asio::read(state_->receiver, asio::mutable_buffer(state_->received.data(), state_->received.size()));
      }
    });
    for (std::uint64_t i = 0; i < count; ++i) {
      asio::write(state_->sender, asio::const_buffer(state_->sent.data(), state_->sent.size()));
    }
    reading.get();
  } catch (const std::system_error& error) {
    throw RunError(std::string("loopback: ") + error.what());
  }
  return seconds_since(begin);
}

// -- the cipher ------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t record_bytes = 16384;  // of TLS, at most
constexpr std::size_t nonce_bytes = 12;
constexpr std::size_t tag_bytes = 16;
constexpr std::size_t key_bytes_max = 32;

/// One direction of AES-GCM, a record at a time, as TLS uses it.
class RecordCipher {
 public:
  RecordCipher(bool encrypts, GcmKey length) : context_(EVP_CIPHER_CTX_new()), encrypts_(encrypts) {
    const std::array<unsigned char, key_bytes_max> key{};
    const EVP_CIPHER* cipher = length == GcmKey::aes_128 ? EVP_aes_128_gcm() : EVP_aes_256_gcm();
    check(context_ != nullptr &&
          EVP_CipherInit_ex(context_.get(), cipher, nullptr, key.data(), nullptr, encrypts ? 1 : 0) == 1);
  }

  /// `tag` is written, or held against the record.
  void run(const std::vector<unsigned char>& from, std::vector<unsigned char>& to,
           std::array<unsigned char, tag_bytes>& tag) {
    int written = 0;
    EVP_CIPHER_CTX* context = context_.get();
    check(EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce_.data(), -1) == 1);
    if (!encrypts_) check(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, tag_bytes, tag.data()) == 1);
    check(EVP_CipherUpdate(context, to.data(), &written, from.data(), static_cast<int>(from.size())) == 1);
    check(EVP_CipherFinal_ex(context, to.data() + written, &written) == 1);
    if (encrypts_) check(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, tag_bytes, tag.data()) == 1);
  }

 private:
  struct Release {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };

  static void check(bool succeeded) {
    if (!succeeded) throw RunError("OpenSSL does not encrypt with AES-GCM as it should");
  }

  std::unique_ptr<EVP_CIPHER_CTX, Release> context_;
  bool encrypts_;
  const std::array<unsigned char, nonce_bytes> nonce_{};  // what is encrypted here is no secret
};

std::uint64_t records_of(std::uint64_t bytes) {
  return (bytes + record_bytes - 1) / record_bytes;
}

void encrypt(std::uint64_t records, GcmKey key) {
  RecordCipher cipher(true, key);
  const std::vector<unsigned char> text(record_bytes);
  std::vector<unsigned char> sealed(record_bytes);
  std::array<unsigned char, tag_bytes> made{};
  for (std::uint64_t i = 0; i < records; ++i) cipher.run(text, sealed, made);
}

}  // namespace

double cipher_seconds(std::uint64_t bytes, GcmKey key) {
  const Clock::time_point begin = Clock::now();
  encrypt(records_of(bytes), key);
  return seconds_since(begin);
}

double both_ends_cipher_seconds(std::uint64_t bytes) {
  const std::uint64_t records = records_of(bytes);
  const std::vector<unsigned char> text(record_bytes);
  std::vector<unsigned char> record(record_bytes);
  std::array<unsigned char, tag_bytes> tag{};
  RecordCipher(true, GcmKey::aes_128).run(text, record, tag);
  const Clock::time_point begin = Clock::now();
  auto decrypting = std::async(std::launch::async, [&] {
    RecordCipher cipher(false, GcmKey::aes_128);
    std::vector<unsigned char> opened(record_bytes);
    std::array<unsigned char, tag_bytes> expected = tag;
    for (std::uint64_t i = 0; i < records; ++i) cipher.run(record, opened, expected);
  });
  encrypt(records, GcmKey::aes_128);
  decrypting.get();
  return seconds_since(begin);
}

}  // namespace zerolock
