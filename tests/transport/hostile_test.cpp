/// What a port that anybody can reach has to stand.

#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <thread>

#include "tests/temporary_folder.hpp"
#include "tests/transport/network_support.hpp"
#include "transport/certificates.hpp"
#include "transport/frame_header.hpp"

namespace zerolock {

using namespace std::chrono_literals;
using namespace test;

namespace {

/// Bytes of this process that are in memory; always the same under AddressSanitizer, which keeps what was
/// freed.
std::size_t resident_bytes() {
#ifdef __SANITIZE_ADDRESS__
  return 0;
#endif
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

/// Honest work goes on: a new connection is made and carries an entry.
void check_service(Server& server, DialOptions options) {
  Network network;
  const End here = connect(network, std::move(options));
  const End there = server.accepted();
  here.connection->send(entry_of(10000, 42));
  CHECK(is_entry_of(*there.events->frame(), 10000, 42));
  here.connection->close("done");
}

FrameHeaderBytes entry_header(std::uint64_t payload_bytes) {
  return write_frame_header({FrameType::entry, 0, payload_bytes});
}

}  // namespace

TEST_CASE("strangers are turned away before and without a hello", "[hostile]") {
  Server server;
  std::mt19937_64 random(11);
  const std::size_t before = resident_bytes();
  SECTION("random bytes") {
    std::vector<std::byte> bytes(1 << 20);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    RawSocket socket(server.address());
    socket.send(bytes);
    CHECK(socket.read_to_end() == 0);
    CHECK(server.rejection().find("the bytes are not those of a zerolock connection") != std::string::npos);
  }
  SECTION("HTTP") {
    RawSocket socket(server.address());
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    socket.send(std::as_bytes(std::span(request)));
    CHECK(socket.read_to_end() == 0);
  }
  SECTION("four gibibytes announced") {
    for (const FrameHeader header : {FrameHeader{FrameType::hello, 0xffffffffU, 0},
                                     FrameHeader{FrameType::hello, 0, std::uint64_t{4} << 30},
                                     FrameHeader{FrameType::entry, 8, std::uint64_t{4} << 30}}) {
      RawSocket socket(server.address());
      socket.send(write_frame_header(header));
      CHECK(socket.read_to_end() == 0);
    }
  }
  SECTION("another first frame than hello") {
    RawSocket socket(server.address());
    socket.send(wire_bytes({FrameType::bye, to_wire(std::string("hi")), {}}));
    CHECK(socket.read_to_end() == 0);
  }
  SECTION("a hello that is none") {
    RawSocket socket(server.address());
    socket.send(wire_bytes({FrameType::hello, std::vector<std::byte>(100, std::byte{0xff}), {}}));
    CHECK(socket.read_to_end() == 0);
    CHECK(server.rejection().find("hello: ") != std::string::npos);
  }
  SECTION("a wrong checksum") {
    auto bytes = hello_bytes("token");
    bytes.back() ^= std::byte{1};
    RawSocket socket(server.address());
    socket.send(bytes);
    CHECK(socket.read_to_end() == 0);
    CHECK(server.rejection().find("the checksum of a hello frame is wrong") != std::string::npos);
  }
  CHECK(resident_bytes() < before + (std::size_t{8} << 20));
  check_service(server, dial_options(server.address()));
}

TEST_CASE("half a hello and silence end in time", "[hostile]") {
  Server::Settings settings;
  settings.hello_limit = 100ms;
  Server server(std::move(settings));
  RawSocket silent(server.address());
  RawSocket half(server.address());
  const auto hello = hello_bytes("token");
  half.send(std::span(hello).first(40));
  CHECK(silent.read_to_end() == 0);
  CHECK(half.read_to_end() == 0);
  CHECK(server.rejection().find("no answer in time") != std::string::npos);
}

TEST_CASE("an accepted peer cannot exceed its bounds either", "[hostile]") {
  Server::Settings settings;
  settings.connection.bounds = FrameBounds().allow(FrameType::entry, 100, 1000000);
  Server server(std::move(settings));
  const std::size_t before = resident_bytes();
  const auto cause_after = [&](std::span<const std::byte> bytes) {
    RawSocket socket(server.address());
    socket.send(hello_bytes("token"));
    const End there = server.accepted();
    socket.send(bytes);
    const std::string cause = there.events->cause();
    socket.read_to_end();
    return cause;
  };
  CHECK(cause_after(entry_header(std::uint64_t{4} << 30)) ==
        "entry frame announces 4294967296 bytes of payload, at most 1000000 are allowed");
  CHECK(cause_after(write_frame_header({FrameType::entry, 101, 0})) ==
        "entry frame announces 101 bytes of metadata, at most 100 are allowed");
  CHECK(cause_after(write_frame_header({FrameType::part, 0, 0})) == "a part frame has no place here");
  CHECK(cause_after(hello_bytes("token")) == "a hello frame has no place here");
  auto damaged = wire_bytes(entry_of(1000, 1));
  damaged[500] ^= std::byte{4};
  CHECK(cause_after(damaged) == "the checksum of a entry frame is wrong");
  CHECK(cause_after(wire_bytes({FrameType::bye, std::vector<std::byte>(3), {}})).rfind("bye: ", 0) == 0);
  CHECK(resident_bytes() < before + (std::size_t{8} << 20));
  check_service(server, dial_options(server.address()));
}

TEST_CASE("half an entry and silence end by the limit of silence", "[hostile]") {
  Server::Settings settings;
  settings.connection.silence_limit = 300ms;
  Server server(std::move(settings));
  RawSocket socket(server.address());
  socket.send(hello_bytes("token"));
  const End there = server.accepted();
  const auto entry = wire_bytes(entry_of(100000, 1));
  socket.send(std::span(entry).first(50000));
  CHECK(there.events->cause() == "nothing was heard from the peer for 300 ms");
}

TEST_CASE("a thousand silent connections keep nobody out", "[hostile]") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit before = limit;
  constexpr rlim_t needed = 1400;
  if (limit.rlim_max < needed) {
    WARN("skipped: this user may not have " << needed << " open files");
    return;
  }
  limit.rlim_cur = std::max(limit.rlim_cur, needed);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  {
    const TemporaryFolder folder;
    make_certificates(folder.path(),
                      {{{NodeRole::coordinator, "coordinator"}, {}}, {{NodeRole::executor, "node-a"}, {}}});
    const bool use_tls = GENERATE(false, true);
    Server::Settings settings;
    DialOptions options = dial_options({});
    if (use_tls) {
      const auto load = [&](const std::string& name) {
        return Security::tls(
            {folder.path() / "ca.pem", folder.path() / (name + ".pem"), folder.path() / (name + ".key")});
      };
      settings.security = load("coordinator");
      options.security = load("node-a");
    }
    Server server(std::move(settings));
    options.address = server.address();
    const std::size_t resident_before = resident_bytes();
    std::vector<RawSocket> crowd;
    for (int i = 0; i < 1000; ++i) crowd.emplace_back(server.address());
    // The oldest have made room: their connections are at an end.
    for (int i = 0; i < 1000 - 64; ++i) CHECK(crowd[static_cast<std::size_t>(i)].read_to_end() == 0);
    CHECK(resident_bytes() < resident_before + (std::size_t{24} << 20));
    check_service(server, options);
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a storm of bad connections leaves a good one alone", "[hostile]") {
  Server server;
  Network network;
  const End here = connect(network, dial_options(server.address()));
  const End there = server.accepted();
  std::thread storm([address = server.address()] {
    std::mt19937_64 random(5);
    for (int i = 0; i < 300; ++i) {
      RawSocket socket(address);
      std::vector<std::byte> bytes(random() % 2000);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      socket.send(bytes);
    }
  });
  for (int i = 0; i < 300; ++i) {
    const auto seed = static_cast<std::uint8_t>(i);
    here.connection->send(entry_of(20000, seed));
    CHECK(is_entry_of(*there.events->frame(), 20000, seed));
  }
  storm.join();
  CHECK(there.events->closed_count() == 0);
}

}  // namespace zerolock
