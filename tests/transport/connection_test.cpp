#include "transport/connection.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "tensors/base/error.hpp"
#include "tests/transport/network_support.hpp"

namespace zerolock {

using namespace std::chrono_literals;
using namespace test;

TEST_CASE("both sides agree and say who they are", "[connection]") {
  Server server;
  Network network;
  DialResult result = dial(network, dial_options(server.address()));
  REQUIRE(std::holds_alternative<Dialled>(result));
  const Dialled& dialled = std::get<Dialled>(result);
  CHECK(dialled.welcome.run == "run-7");
  CHECK(dialled.welcome.program_version == "0.1.0");
  CHECK(dialled.connection->peer() == NodeIdentity{NodeRole::coordinator, "coordinator"});
  const End there = server.accepted();
  CHECK(there.connection->peer() == NodeIdentity{NodeRole::executor, "node-a"});
  CHECK(there.connection->peer_text().rfind("executor node-a at 127.0.0.1:", 0) == 0);
}

TEST_CASE("frames go both ways, whole and in order", "[connection]") {
  Server server;
  Network network;
  const End here = connect(network, dial_options(server.address()));
  const End there = server.accepted();
  const std::vector<std::size_t> sizes{0, 1, 100, 5000, 100000, 3000000};
  for (std::uint8_t i = 0; i < sizes.size(); ++i) {
    CHECK(here.connection->send(entry_of(sizes[i], i)));
    CHECK(there.connection->send(entry_of(sizes[i], i + 100, 300)));
  }
  for (std::uint8_t i = 0; i < sizes.size(); ++i) {
    const auto forth = there.events->frame();
    const auto back = here.events->frame();
    REQUIRE((forth && back));
    CHECK(is_entry_of(*forth, sizes[i], i));
    CHECK(is_entry_of(*back, sizes[i], i + 100));
  }
}

TEST_CASE("frames of many threads keep their order", "[connection]") {
  Server server;
  Network network;
  const End here = connect(network, dial_options(server.address()));
  const End there = server.accepted();
  constexpr int threads = 4;
  constexpr int each = 500;
  std::vector<std::thread> senders;
  std::atomic<int> refused{0};
  for (int t = 0; t < threads; ++t) {
    senders.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        Frame frame = entry_of(static_cast<std::size_t>(i), static_cast<std::uint8_t>(t), 1);
        if (!here.connection->send(std::move(frame))) ++refused;
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  CHECK(refused == 0);
  std::map<int, std::size_t> next;
  for (int i = 0; i < threads * each; ++i) {
    const auto frame = there.events->frame();
    REQUIRE(frame);
    const int sender = std::to_integer<int>(frame->metadata.at(0));
    CHECK(frame->payload.size() == next[sender]++);
  }
}

TEST_CASE("IPv6 works as IPv4 does", "[connection]") {
  Network probe;
  std::unique_ptr<Server> server;
  try {
    Server::Settings settings;
    settings.host = "::1";
    server = std::make_unique<Server>(std::move(settings));
  } catch (const InputError& error) {
    WARN("skipped: no IPv6 here: " << error.what());
    return;
  }
  Network network;
  CHECK(server->address().text().rfind("[::1]:", 0) == 0);
  const End here = connect(network, dial_options(server->address()));
  const End there = server->accepted();
  here.connection->send(entry_of(1000, 3));
  CHECK(is_entry_of(*there.events->frame(), 1000, 3));
}

TEST_CASE("names are looked up", "[connection]") {
  Server server;
  Network network;
  const End here = connect(network, dial_options({"localhost", server.address().port}));
  CHECK(server.accepted().connection->peer().name == "node-a");
}

TEST_CASE("counters count what crossed", "[connection]") {
  Server server;
  Network network;
  const End here = connect(network, dial_options(server.address()));
  const End there = server.accepted();
  for (std::uint8_t i = 0; i < 5; ++i) here.connection->send(entry_of(1000, i, 20));
  for (int i = 0; i < 5; ++i) REQUIRE(there.events->frame());
  there.connection->send({FrameType::credit, std::vector<std::byte>(10), {}});
  REQUIRE(here.events->frame());
  const ConnectionCounters received = there.connection->counters();
  CHECK(received.received_of(FrameType::entry).frames == 5);
  CHECK(received.received_of(FrameType::entry).payload_bytes == 5000);
  CHECK(received.received_of(FrameType::entry).wire_bytes() == 5 * (1000 + 20 + 36));
  CHECK(received.received_of(FrameType::hello).frames == 1);
  CHECK(received.sent_of(FrameType::welcome).frames == 1);
  const ConnectionCounters sent = here.connection->counters();
  CHECK(sent.sent_of(FrameType::entry).wire_bytes() == 5 * (1000 + 20 + 36));
  CHECK(sent.received_of(FrameType::credit).wire_bytes() == 10 + 36);
  CHECK(sent.received_of(FrameType::entry).frames == 0);
}

TEST_CASE("close says why, once, after everything that was queued", "[connection]") {
  Server server;
  auto network = std::make_unique<Network>();
  const End here = connect(*network, dial_options(server.address()));
  const End there = server.accepted();
  for (std::uint8_t i = 0; i < 20; ++i) CHECK(here.connection->send(entry_of(200000, i)));
  here.connection->close("the window is done");
  CHECK(here.events->cause() == "closed by this side: the window is done");
  CHECK_FALSE(here.connection->send(entry_of(1, 1)));
  CHECK(there.events->cause() == "closed by the peer: the window is done");
  for (std::uint8_t i = 0; i < 20; ++i) CHECK(is_entry_of(*there.events->frame(), 200000, i));
  here.connection->close("again");
  there.connection->close("too late");
  network.reset();
  CHECK(here.events->closed_count() == 1);
  CHECK(there.events->closed_count() == 1);
  CHECK_FALSE(there.events->received_after_closed());
}

TEST_CASE("both sides may close at once", "[connection]") {
  Server server;
  Network network;
  for (int round = 0; round < 20; ++round) {
    const End here = connect(network, dial_options(server.address()));
    const End there = server.accepted();
    here.connection->send(entry_of(100000, 1));
    there.connection->send(entry_of(100000, 2));
    here.connection->close("one");
    there.connection->close("two");
    CHECK_FALSE(here.events->cause().empty());
    CHECK_FALSE(there.events->cause().empty());
    CHECK(here.events->closed_count() == 1);
    CHECK(there.events->closed_count() == 1);
  }
}

TEST_CASE("letting go of a connection closes it", "[connection]") {
  Server server;
  Network network;
  End here = connect(network, dial_options(server.address()));
  const End there = server.accepted();
  here.connection.reset();
  CHECK(here.events->cause() == "closed by this side: its owner has let go of it");
  CHECK(there.events->cause() == "closed by the peer: its owner has let go of it");
}

TEST_CASE("frames that come before start are not lost", "[connection]") {
  Server::Settings settings;
  settings.start = false;
  Server server(std::move(settings));
  Network network;
  const End here = connect(network, dial_options(server.address()));
  End there = server.accepted();
  here.connection->send(entry_of(5000, 9));
  there.start();
  CHECK(is_entry_of(*there.events->frame(), 5000, 9));
  SECTION("and a connection that ended before start says so") {
    Server::Settings other;
    other.start = false;
    Server another(std::move(other));
    End gone = connect(network, dial_options(another.address()));
    End late = another.accepted();
    gone.connection.reset();
    gone.events->cause();
    late.start();
    CHECK(late.events->cause() == "closed by the peer: its owner has let go of it");
  }
}

TEST_CASE("a network that ends closes its connections", "[connection]") {
  Server server;
  End here;
  std::promise<DialResult> unanswered;
  const RawListener silent;
  {
    Network network;
    here = connect(network, dial_options(server.address()));
    network.dial(dial_options(silent.address()),
                 [&](DialResult result) { unanswered.set_value(std::move(result)); });
  }
  CHECK(here.events->closed_count() == 1);
  CHECK(here.events->cause() == "closed by this side: the network closes");
  CHECK(server.accepted().events->cause() == "closed by the peer: the process ends");
  CHECK_FALSE(here.connection->send(entry_of(1, 1)));
  const DialResult result = unanswered.get_future().get();
  CHECK(std::get<DialFailure>(result).kind == DialFailure::Kind::cancelled);
}

TEST_CASE("an owner that throws loses its connection only", "[connection]") {
  Server::Settings settings;
  settings.start = false;
  Server server(std::move(settings));
  Network network;
  const End here = connect(network, dial_options(server.address()));
  End there = server.accepted();
  std::promise<std::string> cause;
  there.connection->start({[](Frame) { throw std::runtime_error("no room for it"); },
                           [&](std::string why) { cause.set_value(std::move(why)); }});
  here.connection->send(entry_of(10, 1));
  CHECK(cause.get_future().get() == "no room for it");
  CHECK(here.events->cause() == "the peer closed the connection without a word");
  CHECK_FALSE(std::holds_alternative<DialFailure>(dial(network, dial_options(server.address()))));
}

TEST_CASE("who does not read makes its peer's queue full, not larger", "[connection]") {
  Server::Settings settings;
  settings.connection.send_queue_bytes = 3000000;
  Server server(std::move(settings));
  RawSocket reader(server.address());
  reader.send(hello_bytes("token"));
  const End there = server.accepted();
  std::uint8_t sent = 0;
  // The system's own buffers take some megabytes before the queue fills.
  while (there.connection->send(entry_of(500000, sent))) {
    ++sent;
    REQUIRE(there.connection->queued_bytes() <= 3000000);
    REQUIRE(sent < 200);
  }
  CHECK(sent >= 5);
  // Everything that was taken comes whole as soon as the peer reads.
  const std::size_t welcome_bytes =
      wire_bytes({FrameType::welcome,
                  to_wire(Welcome{{NodeRole::coordinator, "coordinator"}, "0.1.0", "run-7"}),
                  {}})
          .size();
  CHECK(reader.read(welcome_bytes).size() == welcome_bytes);
  for (std::uint8_t i = 0; i < sent; ++i) {
    const auto expected = wire_bytes(entry_of(500000, i));
    std::vector<std::byte> frame = reader.read(expected.size());
    // A beat may stand between two frames.
    while (frame.size() == expected.size() && frame != expected &&
           std::equal(frame.begin(), frame.begin() + 36, wire_bytes({FrameType::beat, {}, {}}).begin())) {
      frame.erase(frame.begin(), frame.begin() + 36);
      const auto rest = reader.read(36);
      frame.insert(frame.end(), rest.begin(), rest.end());
    }
    REQUIRE(frame == expected);
  }
  there.connection->close("done");
}

TEST_CASE("a silent peer is given up, one that beats is not", "[connection]") {
  Server::Settings settings;
  settings.connection.silence_limit = 2000ms;
  settings.connection.beat_interval = 100ms;
  Server server(std::move(settings));
  Network network;
  DialOptions beating = dial_options(server.address());
  beating.connection.beat_interval = 100ms;
  beating.connection.silence_limit = 2000ms;
  const End alive = connect(network, beating);
  const End alive_there = server.accepted();
  DialOptions mute = dial_options(server.address());
  mute.connection.beat_interval = 1h;
  const End silent = connect(network, mute);
  const End silent_there = server.accepted();
  CHECK(silent_there.events->cause() == "nothing was heard from the peer for 2000 ms");
  // The other connection is older, and lives.
  alive.connection->send(entry_of(10, 1));
  CHECK(is_entry_of(*alive_there.events->frame(), 10, 1));
  CHECK(alive_there.connection->counters().received_of(FrameType::beat).frames >= 1);
}

TEST_CASE("a slow link that trickles is alive", "[connection]") {
  Server::Settings settings;
  settings.connection.silence_limit = 1500ms;
  Server server(std::move(settings));
  Network network;
  DialOptions options = dial_options(server.address());
  options.connection.link = parse_link_profile("5ms,1kB", "--link");
  const End here = connect(network, options);
  const End there = server.accepted();
  // Three seconds on this link.
  const auto begin = std::chrono::steady_clock::now();
  here.connection->send(entry_of(3000, 4));
  here.connection->send({FrameType::credit, {}, {}});
  const auto frame = there.events->frame();
  REQUIRE(frame);
  // The credit came into the free link's queue later, or overtook the entry: both arrive whole.
  const auto other = there.events->frame();
  REQUIRE(other);
  CHECK((is_entry_of(*frame, 3000, 4) || is_entry_of(*other, 3000, 4)));
  CHECK(std::chrono::steady_clock::now() - begin >= 2900ms);
}

TEST_CASE("latency does not lower the rate", "[connection]") {
  Server server;
  Network network;
  DialOptions options = dial_options(server.address());
  options.connection.link = parse_link_profile("100ms,10MB", "--link");
  const End here = connect(network, options);
  const End there = server.accepted();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint8_t i = 0; i < 20; ++i) here.connection->send(entry_of(100000, i));
  for (std::uint8_t i = 0; i < 20; ++i) {
    CHECK(is_entry_of(*there.events->frame(), 100000, i));
    // No frame is earlier than the link lets it be: ten milliseconds each, one latency for all.
    CHECK(std::chrono::steady_clock::now() - begin >= 100ms + (i + 1) * 10ms);
  }
}

TEST_CASE("dialling that fails says why", "[connection]") {
  Network network;
  using Kind = DialFailure::Kind;
  SECTION("nobody listens") {
    Address address;
    {
      const RawListener gone;
      address = gone.address();
    }
    const DialFailure failure = dial_failure(network, dial_options(address));
    CHECK(failure.kind == Kind::nobody);
    CHECK(failure.reason == address.text() + ": nobody listens there");
  }
  SECTION("a listener that says nothing") {
    const RawListener silent;
    DialOptions options = dial_options(silent.address());
    options.limit = 50ms;
    const DialFailure failure = dial_failure(network, options);
    CHECK(failure.kind == Kind::timed_out);
    CHECK(failure.reason == silent.address().text() + ": no answer in time");
  }
  SECTION("another protocol") {
    const RawListener other;
    std::thread peer([&] {
      RawSocket socket = other.accept();
      const std::string words = "220 mail.example ESMTP\r\n";
      socket.send(std::as_bytes(std::span(words)));
      socket.read_to_end();
    });
    const DialFailure failure = dial_failure(network, dial_options(other.address()));
    peer.join();
    CHECK(failure.kind == Kind::protocol);
    CHECK(failure.reason == other.address().text() + ": the bytes are not those of a zerolock connection");
  }
  SECTION("another version of the protocol") {
    const RawListener other;
    std::thread peer([&] {
      RawSocket socket = other.accept();
      auto bytes = wire_bytes({FrameType::refuse, to_wire(Refusal{"no"}), {}});
      bytes[4] = std::byte{77};
      socket.send(bytes);
      socket.read_to_end();
    });
    const DialFailure failure = dial_failure(network, dial_options(other.address()));
    peer.join();
    CHECK(failure.reason ==
          other.address().text() + ": the peer speaks protocol version 77, this program version 1");
  }
  SECTION("the owner refuses, in its own words") {
    Server::Settings settings;
    settings.refusal = "this coordinator leads run run-7, not run-8";
    Server server(std::move(settings));
    const DialFailure failure = dial_failure(network, dial_options(server.address()));
    CHECK(failure.kind == Kind::refused);
    CHECK(failure.reason == server.address().text() + ": this coordinator leads run run-7, not run-8");
    CHECK(server.rejection().find("this coordinator leads run run-7") != std::string::npos);
  }
  SECTION("a wrong token") {
    Server server;
    DialOptions options = dial_options(server.address());
    options.hello.token = "token2";
    const DialFailure failure = dial_failure(network, options);
    CHECK(failure.kind == Kind::refused);
    CHECK(failure.reason == server.address().text() + ": the token is not this run's");
  }
  SECTION("somebody else than expected") {
    Server server;
    DialOptions options = dial_options(server.address());
    options.peer = {NodeRole::executor, "node-b"};
    const DialFailure failure = dial_failure(network, options);
    CHECK(failure.kind == Kind::security);
    CHECK(failure.reason ==
          server.address().text() + ": the peer is coordinator coordinator, expected was executor node-b");
  }
  SECTION("a plain connection beyond loopback") {
    const DialFailure failure = dial_failure(network, dial_options({"192.0.2.1", 7000}));
    CHECK(failure.kind == Kind::security);
    CHECK(failure.reason ==
          "192.0.2.1:7000: only loopback addresses can be reached without TLS (--tls DIR, or --insecure)");
  }
}

TEST_CASE("listening that fails says why", "[connection]") {
  Network network;
  const auto reason = [&](const Address& address, Security security) -> std::string {
    ListenOptions options;
    options.address = address;
    options.security = std::move(security);
    options.token = "token";
    try {
      const auto listener = network.listen(options, {});
    } catch (const InputError& error) {
      return error.what();
    }
    return "listens";
  };
  const RawListener busy;
  CHECK(reason(busy.address(), Security::plain()) ==
        busy.address().text() + ": the port is in use by another program");
  CHECK(reason({"0.0.0.0", 0}, Security::plain()) ==
        "0.0.0.0:0: only loopback addresses can be listened on without TLS (--tls DIR, or --insecure)");
  const Security anywhere = Security::plain(Security::PlainReach::anywhere);
  CHECK(reason({"0.0.0.0", 0}, anywhere) == "listens");
  CHECK(reason({"192.0.2.1", 0}, anywhere) == "192.0.2.1:0: is not an address of this machine");
}

TEST_CASE("a port is free again at once", "[connection]") {
  Network network;
  Address address{"127.0.0.1", 0};
  for (int round = 0; round < 5; ++round) {
    Server::Settings settings;
    Server server(std::move(settings));
    const End here = connect(network, dial_options(server.address()));
    address = server.address();
    server.close_listener();
    // Connections live on when their listener is gone.
    const End there = server.accepted();
    here.connection->send(entry_of(10, 1));
    CHECK(is_entry_of(*there.events->frame(), 10, 1));
  }
  const DialFailure failure = dial_failure(network, dial_options(address));
  CHECK(failure.kind == DialFailure::Kind::nobody);
}

}  // namespace zerolock
