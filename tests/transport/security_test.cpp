#include "transport/security.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tensors/base/error.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/transport/network_support.hpp"
#include "transport/certificates.hpp"
#include "transport/openssl_objects.hpp"

namespace zerolock {

using namespace std::chrono_literals;
using namespace test;

namespace {

const CertificateRequest coordinator{{NodeRole::coordinator, "coordinator"},
                                     {"localhost", "127.0.0.1", "::1"}};
const CertificateRequest node_a{{NodeRole::executor, "node-a"}, {"localhost"}};
const CertificateRequest node_b{{NodeRole::executor, "node-b"}, {"localhost"}};

Security tls(const std::filesystem::path& folder, const std::string& name) {
  return Security::tls({folder / "ca.pem", folder / (name + ".pem"), folder / (name + ".key")});
}

std::string tls_error(const TlsFiles& files) {
  try {
    Security::tls(files);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

Server::Settings tls_settings(Security security) {
  Server::Settings settings;
  settings.security = std::move(security);
  settings.token = "";
  return settings;
}

DialOptions tls_dial(const Address& address, Security security) {
  DialOptions options = dial_options(address);
  options.security = std::move(security);
  options.hello.token = "";
  return options;
}

/// A client with any certificate, valid or not, that says hello as soon as its own side is content.
struct RawTlsClient {
  RawSocket socket;
  TlsContextObject context{SSL_CTX_new(TLS_client_method())};
  TlsSessionObject session;

  RawTlsClient(const Address& address, const std::filesystem::path& folder, const std::string& name)
      : socket(address) {
    if (!name.empty()) {
      SSL_CTX_use_certificate_file(context.get(), (folder / (name + ".pem")).c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context.get(), (folder / (name + ".key")).c_str(), SSL_FILETYPE_PEM);
    }
    session.reset(SSL_new(context.get()));
    SSL_set_fd(session.get(), socket.descriptor());
  }
  /// Reads until the end and says whether a single byte came.
  bool is_answered() {
    if (SSL_connect(session.get()) != 1) return false;
    const auto hello = hello_bytes("");
    SSL_write(session.get(), hello.data(), static_cast<int>(hello.size()));
    char byte = 0;
    return SSL_read(session.get(), &byte, 1) == 1;
  }
};

}  // namespace

TEST_CASE("certificates name their node, and keys are private", "[security]") {
  const TemporaryFolder folder;
  make_certificates(folder.path(), {coordinator, node_a});
  for (const char* key : {"ca.key", "coordinator.key", "node-a.key"}) {
    struct stat status {};
    REQUIRE(::stat((folder.path() / key).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  CHECK(tls(folder.path(), "node-a").identity() == NodeIdentity{NodeRole::executor, "node-a"});
  CHECK(tls(folder.path(), "coordinator").identity() == NodeIdentity{NodeRole::coordinator, "coordinator"});
  SECTION("nodes can be added, by the same authority") {
    make_certificates(folder.path(), {node_b});
    CHECK(tls(folder.path(), "node-b").identity()->name == "node-b");
  }
  SECTION("what is there is not replaced") {
    CHECK_THROWS_AS(make_certificates(folder.path(), {node_b, node_a}), InputError);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "node-b.pem"));
  }
  SECTION("bad names and hosts are refused") {
    for (const char* name : {"", "two words", "a/b", "ca", "../x", ".hidden"}) {
      CHECK_THROWS_AS(make_certificates(folder.path(), {{{NodeRole::executor, name}, {}}}), InputError);
    }
    CHECK_THROWS_AS(make_certificates(folder.path(), {{{NodeRole::executor, "x"}, {"a,DNS:b"}}}), InputError);
    CHECK_THROWS_AS(make_certificates(folder.path(), {{{NodeRole::executor, "x"}, {"fe80::1%eth0"}}}),
                    InputError);
    CHECK_THROWS_AS(make_certificates(folder.path(), {node_b, node_b}), InputError);
  }
}

TEST_CASE("the files of a node are found in a folder", "[security]") {
  const TemporaryFolder folder;
  make_certificates(folder.path(), {coordinator, node_a});
  CHECK(find_tls_files(folder.path(), NodeRole::coordinator, "").certificate.filename() == "coordinator.pem");
  CHECK(find_tls_files(folder.path(), NodeRole::executor, "").key.filename() == "node-a.key");
  make_certificates(folder.path(), {node_b});
  CHECK(find_tls_files(folder.path(), NodeRole::executor, "node-b").key.filename() == "node-b.key");
  CHECK_THROWS_WITH(
      find_tls_files(folder.path(), NodeRole::executor, ""),
      folder.path().string() + ": holds the certificates of 2 executors; say which one this is by its name");
  CHECK_THROWS_AS(find_tls_files(folder.path() / "none", NodeRole::executor, "node-b"), InputError);
}

TEST_CASE("bad TLS files are named", "[security]") {
  const TemporaryFolder folder;
  const TemporaryFolder foreign;
  make_certificates(folder.path(), {coordinator, node_a});
  make_certificates(foreign.path(), {node_a});
  make_certificates(folder.path(), {{{NodeRole::executor, "old"}, {}}}, {-2h, -1h});
  make_certificates(folder.path(), {{{NodeRole::executor, "future"}, {}}}, {1h, 2h});
  const auto file = [&](const std::string& name) { return folder.path() / name; };
  const auto files = [&](const std::string& name) {
    return TlsFiles{file("ca.pem"), file(name + ".pem"), file(name + ".key")};
  };
  CHECK(tls_error(files("node-a")) == "accepted");
  CHECK(tls_error(files("none")) == file("none.pem").string() + ": no such file");
  CHECK(tls_error(files("old")) ==
        file("old.pem").string() + ": the certificate has expired; make a new one with zerolock certs");
  CHECK(tls_error(files("future")) ==
        file("future.pem").string() + ": the certificate is not yet valid; is this machine's clock right?");
  CHECK(tls_error({file("ca.pem"), file("node-a.pem"), file("coordinator.key")}) ==
        file("coordinator.key").string() + ": is not the key of the certificate " +
            file("node-a.pem").string());
  CHECK(tls_error({foreign.path() / "ca.pem", file("node-a.pem"), file("node-a.key")}) ==
        file("node-a.pem").string() + ": the certificate was not signed by the authority in " +
            (foreign.path() / "ca.pem").string());
  CHECK(tls_error({file("ca.pem"), file("ca.pem"), file("ca.key")}) ==
        file("ca.pem").string() + ": names no role and node; zerolock certs makes certificates");
  const auto text = folder.write("text.pem", "not a certificate");
  CHECK(
      tls_error({file("ca.pem"), text, file("node-a.key")}).rfind(text.string() + ": is no certificate", 0) ==
      0);
  CHECK(
      tls_error({file("ca.pem"), file("node-a.pem"), text}).rfind(text.string() + ": is no unencrypted", 0) ==
      0);
}

TEST_CASE("frames go through TLS, large ones too", "[security]") {
  const TemporaryFolder folder;
  make_certificates(folder.path(), {coordinator, node_a});
  Server server(tls_settings(tls(folder.path(), "coordinator")));
  Network network;
  const End here = connect(network, tls_dial(server.address(), tls(folder.path(), "node-a")));
  const End there = server.accepted();
  CHECK(there.connection->peer() == NodeIdentity{NodeRole::executor, "node-a"});
  const std::vector<std::size_t> sizes{0, 1, 16384, 16385, 300000, 40000000};
  for (std::uint8_t i = 0; i < sizes.size(); ++i) {
    CHECK(here.connection->send(entry_of(sizes[i], i)));
    CHECK(there.connection->send(entry_of(sizes[i], i + 100)));
  }
  for (std::uint8_t i = 0; i < sizes.size(); ++i) {
    CHECK(is_entry_of(*there.events->frame(), sizes[i], i));
    CHECK(is_entry_of(*here.events->frame(), sizes[i], i + 100));
  }
  for (std::uint8_t i = 0; i < 200; ++i) here.connection->send(entry_of(i, i));
  for (std::uint8_t i = 0; i < 200; ++i) CHECK(is_entry_of(*there.events->frame(), i, i));
  here.connection->close("done");
  CHECK(there.events->cause() == "closed by the peer: done");
}

TEST_CASE("a peer that reads late gets every byte through TLS", "[security]") {
  const TemporaryFolder folder;
  make_certificates(folder.path(), {coordinator, node_a});
  Server::Settings settings = tls_settings(tls(folder.path(), "coordinator"));
  settings.start = false;
  Server server(std::move(settings));
  Network network;
  const End here = connect(network, tls_dial(server.address(), tls(folder.path(), "node-a")));
  End there = server.accepted();
  // More than all buffers of a socket: the rest waits, and what comes behind it joins the same writes.
  constexpr std::size_t large = 40000000;
  CHECK(here.connection->send(entry_of(large, 1)));
  for (std::uint8_t i = 0; i < 200; ++i) CHECK(here.connection->send(entry_of(i, i)));
  CHECK(here.connection->queued_bytes() > large);
  there.start();
  CHECK(is_entry_of(*there.events->frame(), large, 1));
  for (std::uint8_t i = 0; i < 200; ++i) CHECK(is_entry_of(*there.events->frame(), i, i));
}

TEST_CASE("certificates decide who is let in", "[security]") {
  const TemporaryFolder folder;
  const TemporaryFolder foreign;
  make_certificates(folder.path(), {coordinator, node_a, node_b});
  make_certificates(foreign.path(), {coordinator, node_a});
  make_certificates(folder.path(), {{{NodeRole::executor, "old"}, {}}}, {-2h, -1h});
  Server server(tls_settings(tls(folder.path(), "coordinator")));
  Network network;
  using Kind = DialFailure::Kind;
  SECTION("a certificate of another authority") {
    const DialFailure failure =
        dial_failure(network, tls_dial(server.address(), tls(foreign.path(), "node-a")));
    CHECK(failure.kind == Kind::security);
    CHECK(failure.reason.find("the peer's certificate is not accepted: ") != std::string::npos);
    // The listener sees only that the dialler broke off.
    CHECK(server.rejection().find("was turned away: the peer does not accept this side's certificate") !=
          std::string::npos);
  }
  SECTION("a certificate of another authority, at the listener") {
    RawTlsClient client(server.address(), foreign.path(), "node-a");
    CHECK_FALSE(client.is_answered());
    CHECK(server.rejection().find("the peer's certificate is not accepted: ") != std::string::npos);
  }
  SECTION("an expired certificate") {
    RawTlsClient client(server.address(), folder.path(), "old");
    CHECK_FALSE(client.is_answered());
    CHECK(server.rejection().find("not accepted: certificate has expired") != std::string::npos);
  }
  SECTION("no certificate") {
    RawTlsClient client(server.address(), folder.path(), "");
    CHECK_FALSE(client.is_answered());
    CHECK(server.rejection().find("the peer has no certificate") != std::string::npos);
  }
  SECTION("TLS 1.2") {
    RawTlsClient client(server.address(), folder.path(), "node-a");
    SSL_set_max_proto_version(client.session.get(), TLS1_2_VERSION);
    CHECK_FALSE(client.is_answered());
    CHECK(server.rejection().find("does not speak TLS 1.3") != std::string::npos);
  }
  SECTION("a good certificate gets an answer from the same client") {
    RawTlsClient client(server.address(), folder.path(), "node-a");
    CHECK(client.is_answered());
  }
  SECTION("a dialler that claims to be another node") {
    const DialFailure failure =
        dial_failure(network, tls_dial(server.address(), tls(folder.path(), "node-b")));
    CHECK(failure.kind == Kind::refused);
    CHECK(failure.reason ==
          server.address().text() + ": the certificate is that of executor node-b, not of executor node-a");
  }
  SECTION("a listener that is another node of the same cluster") {
    DialOptions options = tls_dial(server.address(), tls(folder.path(), "node-a"));
    options.peer = {NodeRole::executor, "node-b"};
    const DialFailure failure = dial_failure(network, options);
    CHECK(failure.kind == Kind::security);
    CHECK(failure.reason ==
          server.address().text() + ": the peer is coordinator coordinator, expected was executor node-b");
  }
  SECTION("a plain dialler, and a plain listener") {
    DialFailure failure = dial_failure(network, dial_options(server.address()));
    CHECK((failure.kind == Kind::protocol || failure.kind == Kind::security));
    CHECK(server.rejection().find("does not speak TLS 1.3") != std::string::npos);
    Server plain;
    failure = dial_failure(network, tls_dial(plain.address(), tls(folder.path(), "node-a")));
    CHECK(failure.reason.find(plain.address().text() + ": the peer") == 0);
    CHECK(plain.rejection().find("the bytes are not those of a zerolock connection") != std::string::npos);
  }
}

TEST_CASE("a dialler hears that its certificate is not accepted", "[security]") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  make_certificates(folder.path(), {coordinator});
  make_certificates(other.path(), {node_a});
  // The dialler trusts the listener's authority, but its own certificate comes from another one. Such files
  // are refused when they are read, so the context is put together here.
  const Security listener = tls(folder.path(), "coordinator");
  const Security dialler = tls(other.path(), "node-a");
  X509_STORE* store = SSL_CTX_get_cert_store(dialler.context()->tls.get());
  X509_STORE_add_cert(store, read_certificate(folder.path() / "ca.pem").get());
  Server server(tls_settings(listener));
  Network network;
  for (int round = 0; round < 20; ++round) {
    const DialFailure failure = dial_failure(network, tls_dial(server.address(), dialler));
    CHECK(failure.kind == DialFailure::Kind::security);
    CHECK(failure.reason.find("the peer does not accept this side's certificate") != std::string::npos);
  }
}

}  // namespace zerolock
