#pragma once
/// The order in which a supervisor's children start and stop: left to right, and back.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace zerolock {

/// Plain state of a fixed row of children; each depends on those to its left.
class ChildOrder {
 public:
  explicit ChildOrder(std::size_t children) : states_(children, State::absent), stop_from_(children) {}

  void started(std::size_t child);
  /// The child is gone, whatever the reason.
  void down(std::size_t child);
  /// The child and all to its right are to stop. Asking for more than before widens the request.
  void stop_from(std::size_t child);
  /// Whom to tell to stop now: the rightmost of those, one at a time; nobody while one is still going.
  std::optional<std::size_t> next_to_stop();
  /// A stop was asked for and all it concerns are gone. The next start ends the request.
  [[nodiscard]] bool stopped() const;
  /// The leftmost child of the request.
  [[nodiscard]] std::size_t stop_target() const { return stop_from_; }
  [[nodiscard]] bool running(std::size_t child) const { return states_.at(child) == State::running; }
  /// It was told to stop, so that its going is no failure.
  [[nodiscard]] bool stopping(std::size_t child) const { return states_.at(child) == State::stopping; }

 private:
  enum class State : std::uint8_t { absent, running, stopping };
  std::vector<State> states_;
  std::size_t stop_from_;  // states_.size(): no request
};

}  // namespace zerolock
