#pragma once
/// Asks a coordinator how its run is.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "supervision/run_status.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// For one thread, but for interrupt().
class StatusClient {
 public:
  /// `dial`: where the coordinator listens and who asks; purpose and bounds are filled in.
  explicit StatusClient(DialOptions dial);

  /// The status of now; the first call connects. Nothing if it was interrupted. Throws RunError of one line:
  /// nobody is there, the certificate or token is wrong, the connection broke, no answer came.
  std::optional<RunStatus> fetch();
  /// Waits for so long, or until there is news without asking: the run's end, the connection's, an
  /// interruption.
  void pause(std::chrono::duration<double> time);
  /// Ends what waits, now and from now on. Thread-safe.
  void interrupt();

 private:
  void connect(std::unique_lock<std::mutex>& lock);
  void dialled(DialResult result);
  void received(Frame frame);
  void failed(const std::string& cause);

  DialOptions dial_;
  std::mutex mutex_;  // of all below but the network
  std::condition_variable news_;
  std::shared_ptr<Connection> connection_;
  std::optional<std::string> failure_;  // why nothing more can come
  std::optional<Frame> answer_;         // the newest that was not looked at
  bool interrupted_ = false;
  Network network_;  // last: nothing is called any more once it is gone
};

}  // namespace zerolock
