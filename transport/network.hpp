#pragma once
/// All sockets of a process, served by one thread.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "transport/address.hpp"
#include "transport/connection.hpp"
#include "transport/hello.hpp"
#include "transport/security.hpp"

namespace zerolock {

/// What the owner of a listener says to a hello: how to go on, or why not.
struct HelloAccepted {
  ConnectionOptions options;
};
using HelloAnswer = std::variant<HelloAccepted, Refusal>;

struct ListenOptions {
  Address address;
  Security security = Security::plain();
  Welcome welcome;    // what a dialler is told: who listens, version, run
  std::string token;  // what diallers must show; required without TLS
  /// From the connection to the whole hello, TLS handshake included. The peer gets nothing more allocated
  /// before.
  std::chrono::milliseconds hello_limit{5000};
  /// Connections that have not said hello; one more ends the oldest of them, so that silent connections
  /// cannot keep honest ones out.
  std::size_t unknown_peers_max = 64;
};

/// Called on the network's thread; must return soon.
struct ListenEvents {
  /// Somebody whose certificate or token is good says hello; under TLS the certificate has proven
  /// hello.node.
  std::function<HelloAnswer(const Hello& hello)> hello;
  /// An accepted connection, right after its hello.
  std::function<void(std::shared_ptr<Connection> connection, const Hello& hello)> accepted;
  /// Somebody was turned away: one line for the log, at most a few a second. May be left empty.
  std::function<void(std::string reason)> rejected;
};

/// Listens until it is destroyed. Connections that were accepted live on. The network's thread may be calling
/// one of the events while the listener is destroyed, so these must not refer to what goes with it, unless
/// the network goes first.
class Listener {
 public:
  virtual ~Listener() = default;
  /// With the port that the system chose, where it was left to it.
  [[nodiscard]] virtual const Address& address() const = 0;
};

struct DialOptions {
  Address address;
  Security security = Security::plain();
  Hello hello;
  ExpectedPeer peer;
  /// From the first attempt to the welcome, name lookup and TLS handshake included.
  std::chrono::milliseconds limit{5000};
  ConnectionOptions connection;
};

/// Why dialling gave no connection; whether trying again can help is the caller's matter.
struct DialFailure {
  enum class Kind {
    unreachable,  // unknown host, no route
    nobody,       // the host is there, and nobody listens at that port
    timed_out,    // within the limit
    security,     // certificates, or somebody else than expected
    protocol,     // not a zerolock process, another protocol version, or the connection broke meanwhile
    refused,      // the listener said no; the reason is its own words
    cancelled,    // the network closes
  };
  Kind kind = Kind::unreachable;
  std::string reason;  // one line with the address
};

struct Dialled {
  std::shared_ptr<Connection> connection;
  Welcome welcome;
};
using DialResult = std::variant<Dialled, DialFailure>;

/// Thread-safe. Destroy it on another thread than its own: that closes all connections and listeners, calls
/// every outstanding `closed` and dial result, and joins the thread. Connections may be held longer; they are
/// closed then.
class Network {
 public:
  Network();
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Throws InputError that names the address: unknown host, port in use, not an address of this machine,
  /// plain where TLS is needed.
  std::unique_ptr<Listener> listen(ListenOptions options, ListenEvents events);

  /// Connects and says hello. `done` is called exactly once, on the network's thread.
  void dial(DialOptions options, std::function<void(DialResult)> done);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace zerolock
