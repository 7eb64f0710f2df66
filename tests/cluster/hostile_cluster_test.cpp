// A cluster that trains while its ports are attacked.

#include <sys/resource.h>

#include "transport/entry_frame.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <thread>

#include "hostile_client.hpp"
#include "loopback_cluster.hpp"
#include "transport/frame_header.hpp"

using namespace zerolock::testing;
using namespace zerolock;
using nlohmann::json;
using test::RawSocket;

namespace {

/// Memory that an attack may cost a process, for as long as it has open connections: TLS sessions of those
/// that have not said hello, and what the allocator keeps of them.
constexpr std::uint64_t attack_bytes_max = std::uint64_t{16} << 20;

std::vector<std::string> certificates(const TinyWorkplace& place, const std::string& folder,
                                      const std::string& host) {
  const std::string hosts = "a=" + host + ",b=" + host + ",c=" + host + ",d=" + host;
  REQUIRE(run_zerolock({"certs", "--out", place.text_path(folder), "--hosts", hosts}).status == 0);
  return {"--tls", place.text_path(folder)};
}

TlsFiles files_of(const TinyWorkplace& place, const std::string& folder, const std::string& node) {
  const std::filesystem::path path = place.path(folder);
  return {path / "ca.pem", path / (node + ".pem"), path / (node + ".key")};
}

std::vector<std::byte> header_of_four_gibibytes(FrameType type) {
  const auto header = write_frame_header({type, 0, std::uint64_t{4} << 30});
  return {header.begin(), header.end()};
}

std::vector<std::byte> hello_of(const std::string& node, ConnectionPurpose purpose,
                                StageIndex boundary = {}) {
  Hello hello;
  hello.node = {NodeRole::executor, node};
  hello.program_version = "0.1.0";
  hello.purpose = purpose;
  hello.boundary = boundary;
  return test::wire_bytes({FrameType::hello, to_wire(hello), {}});
}

/// An entry of the tiny model as it travels across its boundaries.
std::vector<std::byte> recorded_entry() {
  MicroBatchLayout layout;
  layout.sequence_offsets = {0, 2};
  Entry entry;
  entry.position = {WindowIndex{1}, 0};
  entry.layout = std::make_shared<const MicroBatchLayout>(layout);
  entry.payload = at::zeros({2, 64}, at::kFloat);
  return test::wire_bytes(entry_frame(1, entry, WireType::fp32));
}

/// What a port has to stand from somebody without a certificate of the cluster.
void attack_as_stranger(const Address& port, const TlsFiles& foreign) {
  std::mt19937_64 random(11);
  std::vector<std::byte> noise(1 << 20);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const auto& bytes : {std::span<const std::byte>(noise), std::as_bytes(std::span(request))}) {
    RawSocket socket(port);
    socket.send(bytes);
    socket.read_to_end();
  }
  for (const auto& bytes : {header_of_four_gibibytes(FrameType::hello),
                            header_of_four_gibibytes(FrameType::entry), recorded_entry()}) {
    RawSocket socket(port);
    socket.send(bytes);
    socket.read_to_end();
  }
  TlsSocket other_authority(port, foreign);
  other_authority.send(hello_of("b", ConnectionPurpose::boundary, StageIndex{1}));
  other_authority.read_to_end();
}

/// The same from a node of the cluster, with its own certificate.
void attack_as_node(const Address& port, const TlsFiles& own, const std::string& node) {
  const auto attack = [&](const std::vector<std::vector<std::byte>>& frames) {
    TlsSocket socket(port, own);
    for (const auto& frame : frames) socket.send(frame);
    socket.read_to_end();
  };
  attack({header_of_four_gibibytes(FrameType::hello)});
  attack({recorded_entry()});
  attack({hello_of("b", ConnectionPurpose::boundary, StageIndex{1})});
  attack({hello_of("a", ConnectionPurpose::control)});
  for (const ConnectionPurpose purpose :
       {ConnectionPurpose::boundary, ConnectionPurpose::weights, ConnectionPurpose::status}) {
    attack({hello_of(node, purpose, StageIndex{1}), header_of_four_gibibytes(FrameType::entry)});
    attack({hello_of(node, purpose, StageIndex{1}), recorded_entry()});
  }
}

/// The entry sent again with the certificate of the node that the boundary is for: it takes the place of that
/// node's connection until it is seen for what it is, and the node has dialled again.
void replay_as_downstream(const Address& port, const TlsFiles& own, const std::string& node,
                          StageIndex boundary) {
  TlsSocket socket(port, own);
  socket.send(hello_of(node, ConnectionPurpose::boundary, boundary));
  socket.send(recorded_entry());
  socket.read_to_end();
}

/// A thousand connections that say nothing. Returns when those that had to make room are closed.
void crowd(const Address& port) {
  constexpr std::size_t unknown_peers_max = 64;
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 1000; ++i) sockets.emplace_back(port);
  for (std::size_t i = 0; i + unknown_peers_max < sockets.size(); ++i) sockets[i].read_to_end();
}

/// Room for a crowd's descriptors; false if this user may not have it.
bool allow_descriptors() {
  constexpr rlim_t needed = 1400;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < needed) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, needed);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::map<pid_t, std::uint64_t> sizes(const LoopbackCluster& cluster) {
  std::map<pid_t, std::uint64_t> bytes;
  for (const pid_t process : cluster.processes()) bytes[process] = process_bytes(process);
  return bytes;
}

}  // namespace

TEST_CASE("ports that are attacked close what is wrong, and training is unharmed", "[hostile]") {
  if (!allow_descriptors()) {
    WARN("skipped: this user may not have enough open files");
    return;
  }
  const auto [host, listen] =
      GENERATE(table<std::string, std::string>({{"127.0.0.1", "127.0.0.1"}, {"::1", "[::1]"}}));
  INFO(host);
  const TinyWorkplace place;
  const auto proof = certificates(place, "certificates", host);
  certificates(place, "foreign", host);
  const std::vector<std::string> flags{"--stages", "3", "--windows", "300"};
  const json threads =
      summary_of(run_zerolock(place.train("threads", std::vector<std::string>{"--json"} + flags)));

  // A link of 20 ms for one entry at a time: training takes longer than the attack, on any machine.
  const std::vector<std::string> slow{"--depth", "1", "--link", "20ms,1000Mbit"};
  LoopbackCluster cluster(place, coordinator_arguments(place, "network", flags + slow), proof, listen);
  for (const char* name : {"a", "b", "c"}) cluster.join(name, {"--listen", listen + ":0"});
  const bool under_way = cluster.coordinator().wait_for_error_text("info: window ");
  INFO(cluster.coordinator().error_text());
  REQUIRE(under_way);
  const json before = cluster.status();
  std::vector<Address> ports{parse_address(cluster.address(), "the coordinator")};
  for (const json& executor : before["executors"]) {
    ports.push_back(parse_address(executor["address"].get<std::string>(), "an executor"));
  }
  REQUIRE(ports.size() == 4);
  const auto bytes_before = sizes(cluster);

  // Half of a handshake, and half of a frame, then silence.
  std::vector<RawSocket> silent;
  std::vector<TlsSocket> half;
  const std::vector<std::byte> handshake = client_hello();
  const std::vector<std::byte> hello = hello_of("d", ConnectionPurpose::status);
  for (const Address& port : ports) {
    silent.emplace_back(port).send(std::span(handshake).first(handshake.size() / 2));
    half.emplace_back(port, files_of(place, "certificates", "d")).send(std::span(hello).first(40));
  }
  for (const Address& port : ports) {
    attack_as_stranger(port, files_of(place, "foreign", "b"));
    attack_as_node(port, files_of(place, "certificates", "d"), "d");
  }
  replay_as_downstream(ports[0], files_of(place, "certificates", "a"), "a", StageIndex{0});
  replay_as_downstream(ports[1], files_of(place, "certificates", "b"), "b", StageIndex{1});
  crowd(ports[0]);
  crowd(ports[2]);
  for (RawSocket& socket : silent) socket.read_to_end();
  for (TlsSocket& socket : half) socket.read_to_end();

  const auto bytes_after = sizes(cluster);
  for (const auto& [process, bytes] : bytes_before) {
    INFO("process " << process << " had " << bytes << " bytes and has " << bytes_after.at(process));
    CHECK(bytes_after.at(process) < bytes + attack_bytes_max);
  }
  const json after = cluster.status();
  CHECK(after["phase"] == "training");
  CHECK(after["executors"].size() == 3);
  for (const json& stage : after["stages"]) CHECK(stage["restarts"] == 0);
  CHECK(cluster.finish()["adapter_sha256"] == threads["adapter_sha256"]);
}
