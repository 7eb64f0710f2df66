#pragma once
/// What injected faults do to the data connections of a process.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/connection.hpp"

namespace zerolock {

/// Shared by the links of a process and whoever injects faults. Thread-safe.
class LinkFaults {
 public:
  /// The connection is among those that drop() breaks, as long as it lives.
  void watch(const std::shared_ptr<Connection>& connection) {
    const std::lock_guard lock(mutex_);
    std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
    connections_.push_back(connection);
  }
  /// Breaks all connections there are, without a word to the other side.
  void drop(const std::string& cause) {
    std::vector<std::weak_ptr<Connection>> connections;
    {
      const std::lock_guard lock(mutex_);
      connections.swap(connections_);
    }
    for (const auto& weak : connections) {
      if (const auto connection = weak.lock()) connection->abort(cause);
    }
  }
  /// The next entry that a link sends is to be damaged on its way.
  void damage_next_entry() {
    const std::lock_guard lock(mutex_);
    ++damaged_;
  }
  /// Whether this entry is such a one.
  [[nodiscard]] bool take_damage() {
    const std::lock_guard lock(mutex_);
    if (damaged_ == 0) return false;
    --damaged_;
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::size_t damaged_ = 0;
};

}  // namespace zerolock
