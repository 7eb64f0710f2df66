#pragma once
/// The asking end of a connection for weights, for a thread that waits.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "transport/network.hpp"
#include "transport/weights/weights_request.hpp"

namespace zerolock {

/// A connection could not be made or broke; another one may do. The message is one line.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One connection to a WeightsServer. Of one thread. Its destruction closes the connection.
class WeightsClient {
 public:
  /// Dials and waits. Here and below `check_waiting` is called many times a second as long as this thread
  /// waits; what it throws ends the wait. The bounds of options.connection are replaced. Throws
  /// ConnectionLost, or RunError where trying again cannot help: certificates, somebody else than expected,
  /// a network that closes.
  WeightsClient(Network& network, DialOptions options, std::function<void()> check_waiting);
  ~WeightsClient();
  WeightsClient(const WeightsClient&) = delete;
  WeightsClient& operator=(const WeightsClient&) = delete;

  /// Sends a request and returns at once; at most weights_requests_max may wait for their answers. If the
  /// connection has ended, answer() says so.
  void ask(const WeightsRequest& request);
  /// Waits for the answer to the oldest request. Throws ConnectionLost, or RunError for a refusal.
  Payload answer();
  /// "coordinator main at 10.0.0.1:7000"
  [[nodiscard]] std::string peer_text() const { return connection_->peer_text(); }

 private:
  struct Mailbox;
  template <class Ready>
  void wait_until(const Ready& ready);

  std::function<void()> check_waiting_;
  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace zerolock
