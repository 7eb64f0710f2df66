#pragma once
/// Executors that have come before it is known what they are to run: the coordinator listens, and takes down
/// what each says about itself.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/membership_core.hpp"
#include "actors/remote/control_channel.hpp"
#include "supervision/status_board.hpp"
#include "supervision/status_server.hpp"
#include "transport/network.hpp"

namespace zerolock {

struct RollCallOptions {
  Address listen;
  Security security = Security::plain();
  std::string token;  // shared with the executors; needed without TLS
  std::string name = "coordinator";
  std::uint64_t executors = 1;                   // to wait for; spares do not count
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
};

/// Listens from its construction on. With it all connections end: executors then dial again, and find the run
/// at the same address.
class ExecutorRollCall {
 public:
  /// Throws InputError if it cannot listen there.
  explicit ExecutorRollCall(RollCallOptions options);
  ~ExecutorRollCall();
  ExecutorRollCall(const ExecutorRollCall&) = delete;
  ExecutorRollCall& operator=(const ExecutorRollCall&) = delete;

  [[nodiscard]] const Address& address() const { return listener_->address(); }

  /// Blocks until enough executors are here. Returns those that are no spares, by name; nothing if
  /// `stop_requested`, which is polled, said so first.
  std::optional<std::vector<ExecutorCard>> wait(const std::function<bool()>& stop_requested);

 private:
  /// One connection, and who said what on it.
  struct Caller {
    std::string name;
    std::shared_ptr<Connection> connection;
    ControlChannel channel;
    std::optional<ExecutorCard> card;  // of a member
  };

  HelloAnswer answer(const Hello& hello) const;
  void accepted(const std::shared_ptr<Connection>& connection, const Hello& hello);
  void on_frame(std::uint64_t number, const Frame& frame);
  void on_closed(std::uint64_t number);
  void open(Caller& caller, const ControlOpening& opening);
  /// Why the caller cannot be a member, or nothing. A later life of an executor takes the place of earlier
  /// ones.
  std::string refusal_of(const Caller& caller, const ControlOpening& opening);
  [[nodiscard]] std::vector<ExecutorCard> candidates() const;

  RollCallOptions options_;
  std::shared_ptr<StatusBoard> board_;
  StatusServer status_;
  std::mutex mutex_;  // of all below but the network
  std::condition_variable joined_;
  std::map<std::uint64_t, Caller> callers_;  // by the number of the connection
  std::uint64_t latest_ = 0;
  bool ending_ = false;  // no executor has left that is let go
  std::unique_ptr<Network> network_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace zerolock
