#pragma once
/// One boundary between two ends in this process, over loopback, to be measured.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "actors/remote/boundary_frames.hpp"
#include "tensors/base/entry.hpp"
#include "tensors/base/memory_account.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// Two networks with a thread each, as two processes would have. Entries are framed, sent, received into
/// tensors and credited as between two stages; the actors behind the links are left out.
class LoopbackBoundary {
 public:
  struct Setup {
    Security upstream = Security::plain();
    Security downstream = Security::plain();
    LinkProfile link;  // of the upstream
    BoundaryTerms terms;
  };

  /// Connects. Throws RunError.
  explicit LoopbackBoundary(const Setup& setup);
  ~LoopbackBoundary();
  LoopbackBoundary(const LoopbackBoundary&) = delete;
  LoopbackBoundary& operator=(const LoopbackBoundary&) = delete;

  /// Sends an entry so many times, with as many on their way as the terms' depth allows, and waits until the
  /// last has arrived. Returns the seconds from the first send. Throws RunError if the connection ends.
  double transfer(const Entry& entry, std::uint64_t count);
  /// The newest entry that has arrived. Its tensor must not outlive the boundary.
  [[nodiscard]] Entry received() const;
  /// What the upstream has sent and received.
  [[nodiscard]] ConnectionCounters counters() const { return upstream_->counters(); }

 private:
  void listen(const Setup& setup);
  void dial(const Setup& setup);
  void start();
  void arrived(const Frame& frame);
  void credited(const Frame& frame);
  void ended(const std::string& cause);

  BoundaryTerms terms_;
  std::string token_;
  MemoryAccount account_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;         // under mutex_, like all that follows up to the networks
  std::uint64_t sent_ = 0;      // entries since the beginning
  std::uint64_t received_ = 0;  // the same
  std::uint64_t credited_ = 0;  // the same
  Entry newest_;
  std::shared_ptr<Connection> upstream_;
  std::shared_ptr<Connection> downstream_;
  Network upstream_network_;
  Network downstream_network_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace zerolock
