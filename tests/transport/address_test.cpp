#include "transport/address.hpp"

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"

namespace zerolock {

TEST_CASE("addresses are read and written", "[address]") {
  CHECK(parse_address("10.0.0.1:7000", "--listen") == Address{"10.0.0.1", 7000});
  CHECK(parse_address("[::1]:0", "--listen") == Address{"::1", 0});
  CHECK(parse_address("[fe80::1%eth0]:65535", "--listen") == Address{"fe80::1%eth0", 65535});
  CHECK(parse_address("node-1.lan:80", "--listen") == Address{"node-1.lan", 80});
  for (const char* text : {"10.0.0.1:7000", "[::1]:1", "laptop:7000", "[fe80::1%eth0]:5"}) {
    CHECK(parse_address(text, "--join").text() == text);
  }
}

TEST_CASE("bad addresses are refused with the reason", "[address]") {
  const auto reason = [](const char* text) -> std::string {
    try {
      parse_address(text, "--listen");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  using Catch::Matchers::StartsWith;
  CHECK_THAT(reason(""), StartsWith("--listen: '' has no port"));
  CHECK_THAT(reason("host"), StartsWith("--listen: 'host' has no port"));
  CHECK_THAT(reason(":7000"), StartsWith("--listen: ':7000' has no host"));
  CHECK_THAT(reason("host:"), StartsWith("--listen: 'host:' has no port from 0 to 65535"));
  CHECK_THAT(reason("host:70000"), StartsWith("--listen: 'host:70000' has no port from 0 to 65535"));
  CHECK_THAT(reason("host:-1"), StartsWith("--listen: 'host:-1' has no port from 0 to 65535"));
  CHECK_THAT(reason("host:7x"), StartsWith("--listen: 'host:7x' has no port from 0 to 65535"));
  CHECK_THAT(reason("::1:7000"), StartsWith("--listen: '::1:7000' has several colons"));
  CHECK_THAT(reason("[::1:7000"), StartsWith("--listen: '[::1:7000' has no closing bracket"));
  CHECK_THAT(reason("[::1]"), StartsWith("--listen: '[::1]' has no port"));
  CHECK_THAT(reason("[host]:1"), StartsWith("--listen: '[host]:1' has no IPv6 address"));
  CHECK_THAT(reason("1.2.3:5"), StartsWith("--listen: '1.2.3:5' has no good host"));
  CHECK_THAT(reason("256.1.1.1:5"), StartsWith("--listen: '256.1.1.1:5' has no good host"));
  CHECK_THAT(reason("two words:5"), StartsWith("--listen: 'two words:5' has no good host"));
  CHECK_THAT(reason("http://host:5"), StartsWith("--listen: 'http://host:5' has several colons"));
}

TEST_CASE("loopback is known", "[address]") {
  CHECK(is_loopback({"127.0.0.1", 1}));
  CHECK(is_loopback({"127.9.9.9", 1}));
  CHECK(is_loopback({"::1", 1}));
  CHECK(is_loopback({"::ffff:127.0.0.1", 1}));
  CHECK(is_loopback({"localhost", 1}));
  CHECK_FALSE(is_loopback({"0.0.0.0", 1}));
  CHECK_FALSE(is_loopback({"::", 1}));
  CHECK_FALSE(is_loopback({"::ffff:10.0.0.1", 1}));
  CHECK_FALSE(is_loopback({"127.0.0.1.example", 1}));
}

}  // namespace zerolock
