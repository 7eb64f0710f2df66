#pragma once
/// The coordinator's side of connections that ask how the run is.

#include <cstddef>
#include <memory>

#include "supervision/status_board.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// Thread-safe.
class StatusServer {
 public:
  /// At once; one more is refused.
  static constexpr std::size_t watchers_max = 64;

  explicit StatusServer(std::shared_ptr<const StatusBoard> board);
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  /// To a hello whose purpose is status.
  [[nodiscard]] HelloAnswer answer() const;
  void serve(const std::shared_ptr<Connection>& connection);
  /// The run is over: every watcher is told its last status, and its connection closes.
  void finish();

 private:
  class Watchers;
  std::shared_ptr<Watchers> watchers_;
};

}  // namespace zerolock
