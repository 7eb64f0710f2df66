#pragma once
/// A supervisor's children: their handles beside the order in which they start and stop.

#include <caf/all.hpp>
#include <optional>
#include <vector>

#include "actors/failure.hpp"
#include "supervision/child_order.hpp"

namespace zerolock {

class Children {
 public:
  explicit Children(std::size_t count) : order_(count), handles_(count) {}

  void started(std::size_t child, caf::actor handle) {
    order_.started(child);
    handles_.at(child) = std::move(handle);
  }
  /// Which child it was; none for one of an earlier time.
  [[nodiscard]] std::optional<std::size_t> find(const caf::actor_addr& address) const {
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i] && handles_[i].address() == address) return i;
    }
    return std::nullopt;
  }
  /// Returns whether the child had been told to stop.
  bool down(std::size_t child) {
    const bool expected = order_.stopping(child);
    order_.down(child);
    handles_.at(child) = nullptr;
    return expected;
  }
  void stop_from(std::size_t child) { order_.stop_from(child); }
  /// Tells the next one to stop, if it is anyone's turn. Returns whether all are gone that were to stop.
  template <class Self>
  bool continue_stop(Self* self) {
    if (const auto child = order_.next_to_stop()) send_stop(self, handles_[*child]);
    return order_.stopped();
  }
  [[nodiscard]] bool stopped() const { return order_.stopped(); }
  [[nodiscard]] std::size_t stop_target() const { return order_.stop_target(); }
  [[nodiscard]] bool running(std::size_t child) const { return order_.running(child); }
  void clear() { handles_.assign(handles_.size(), nullptr); }

 private:
  ChildOrder order_;
  std::vector<caf::actor> handles_;
};

}  // namespace zerolock
