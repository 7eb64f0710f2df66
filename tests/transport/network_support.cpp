#include "tests/transport/network_support.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <utility>

#include "transport/frame_encoder.hpp"

namespace zerolock::test {

ConnectionEvents Events::callbacks() {
  return {[self = shared_from_this()](Frame frame) {
            const std::lock_guard lock(self->mutex_);
            if (!self->causes_.empty()) self->received_after_closed_ = true;
            self->frames_.push_back(std::move(frame));
            self->changed_.notify_all();
          },
          [self = shared_from_this()](std::string cause) {
            const std::lock_guard lock(self->mutex_);
            self->causes_.push_back(std::move(cause));
            self->changed_.notify_all();
          }};
}

std::optional<Frame> Events::frame() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !frames_.empty() || !causes_.empty(); });
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

std::string Events::cause() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !causes_.empty(); });
  return causes_.front();
}

int Events::closed_count() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(causes_.size());
}

bool Events::received_after_closed() {
  const std::lock_guard lock(mutex_);
  return received_after_closed_;
}

ConnectionOptions open_options() {
  ConnectionOptions options;
  options.bounds.allow(FrameType::entry, 1 << 16, std::uint64_t{1} << 28)
      .allow(FrameType::credit, 64)
      .allow(FrameType::control, 1 << 16);
  options.send_queue_bytes = std::size_t{1} << 29;
  // A machine under load must not fail a test that is not about silence.
  options.silence_limit = std::nullopt;
  return options;
}

Server::Server(Settings settings) : settings_(std::move(settings)) {
  ListenOptions options;
  options.address = {settings_.host, 0};
  options.security = settings_.security;
  options.welcome = {{NodeRole::coordinator, "coordinator"}, "0.1.0", "run-7"};
  options.token = settings_.token;
  options.hello_limit = settings_.hello_limit;
  options.unknown_peers_max = settings_.unknown_peers_max;
  ListenEvents events;
  events.hello = [this](const Hello&) -> HelloAnswer {
    if (!settings_.refusal.empty()) return Refusal{settings_.refusal};
    return HelloAccepted{settings_.connection};
  };
  events.accepted = [this](std::shared_ptr<Connection> connection, const Hello&) {
    End end{std::move(connection)};
    if (settings_.start) end.start();
    const std::lock_guard lock(mutex_);
    accepted_.push_back(std::move(end));
    changed_.notify_all();
  };
  events.rejected = [this](std::string reason) {
    const std::lock_guard lock(mutex_);
    rejections_.push_back(std::move(reason));
    changed_.notify_all();
  };
  listener_ = network_.listen(std::move(options), std::move(events));
}

End Server::accepted() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !accepted_.empty(); });
  End end = std::move(accepted_.front());
  accepted_.pop_front();
  return end;
}

std::string Server::rejection() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !rejections_.empty(); });
  std::string reason = std::move(rejections_.front());
  rejections_.pop_front();
  return reason;
}

DialOptions dial_options(const Address& address) {
  DialOptions options;
  options.address = address;
  options.hello.node = {NodeRole::executor, "node-a"};
  options.hello.program_version = "0.1.0";
  options.hello.token = "token";
  options.peer = {NodeRole::coordinator, "coordinator"};
  options.limit = std::chrono::milliseconds(60000);
  options.connection = open_options();
  return options;
}

DialResult dial(Network& network, DialOptions options) {
  std::promise<DialResult> promise;
  network.dial(std::move(options), [&](DialResult result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

End connect(Network& network, DialOptions options) {
  DialResult result = dial(network, std::move(options));
  if (const auto* failure = std::get_if<DialFailure>(&result)) FAIL(failure->reason);
  End end{std::get<Dialled>(result).connection};
  end.start();
  return end;
}

DialFailure dial_failure(Network& network, DialOptions options) {
  DialResult result = dial(network, std::move(options));
  if (std::holds_alternative<Dialled>(result)) FAIL("dialling succeeded");
  return std::get<DialFailure>(result);
}

namespace {

std::byte content(std::size_t at, std::uint8_t seed) {
  return static_cast<std::byte>(at * 31 + (at >> 8) * 7 + seed);
}

}  // namespace

Frame entry_of(std::size_t payload_bytes, std::uint8_t seed, std::size_t metadata_bytes) {
  Frame frame{FrameType::entry, std::vector<std::byte>(metadata_bytes, std::byte{seed}), {}};
  if (payload_bytes == 0) return frame;
  const PayloadMemory memory = allocate_payload(payload_bytes);
  for (std::size_t at = 0; at < payload_bytes; ++at) memory.bytes[at] = content(at, seed);
  frame.payload = {memory.bytes, memory.owner};
  return frame;
}

bool is_entry_of(const Frame& frame, std::size_t payload_bytes, std::uint8_t seed) {
  if (frame.type != FrameType::entry || frame.payload.size() != payload_bytes) return false;
  const bool metadata = std::all_of(frame.metadata.begin(), frame.metadata.end(),
                                    [&](std::byte byte) { return byte == std::byte{seed}; });
  for (std::size_t at = 0; at < payload_bytes; ++at) {
    if (frame.payload.bytes[at] != content(at, seed)) return false;
  }
  return metadata;
}

std::vector<std::byte> wire_bytes(Frame frame) {
  FrameEncoder encoder(std::move(frame));
  std::vector<std::span<const std::byte>> buffers;
  encoder.gather(SIZE_MAX, buffers);
  std::vector<std::byte> bytes;
  for (const auto& buffer : buffers) bytes.insert(bytes.end(), buffer.begin(), buffer.end());
  return bytes;
}

std::vector<std::byte> hello_bytes(const std::string& token) {
  Hello hello = dial_options({}).hello;
  hello.token = token;
  return wire_bytes({FrameType::hello, to_wire(hello), {}});
}

RawSocket::RawSocket(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  ::inet_pton(is_v6 ? AF_INET6 : AF_INET, address.host.c_str(),
              is_v6 ? static_cast<void*>(&v6.sin6_addr) : static_cast<void*>(&v4.sin_addr));
  const auto* to = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  descriptor_ = ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  if (::connect(descriptor_, to, is_v6 ? sizeof v6 : sizeof v4) != 0) {
    ::close(descriptor_);
    throw std::runtime_error("cannot connect to " + address.text());
  }
}

RawSocket::~RawSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RawSocket::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

std::vector<std::byte> RawSocket::read(std::size_t count) {
  std::vector<std::byte> bytes(count);
  const ssize_t read = ::recv(descriptor_, bytes.data(), count, MSG_WAITALL);
  bytes.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return bytes;
}

std::size_t RawSocket::read_to_end() {
  std::vector<std::byte> bytes(65536);
  std::size_t total = 0;
  while (true) {
    const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return total;
    total += static_cast<std::size_t>(count);
  }
}

RawListener::RawListener() : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (::bind(descriptor_, address, length) != 0 || ::listen(descriptor_, 8) != 0 ||
      ::getsockname(descriptor_, address, &length) != 0) {
    throw std::runtime_error("cannot listen");
  }
  address_ = {"127.0.0.1", ntohs(at.sin_port)};
}

RawListener::~RawListener() {
  ::close(descriptor_);
}

RawSocket RawListener::accept() const {
  return RawSocket(::accept(descriptor_, nullptr, nullptr));
}

}  // namespace zerolock::test
