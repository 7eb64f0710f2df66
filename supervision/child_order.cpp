#include "supervision/child_order.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

void ChildOrder::started(std::size_t child) {
  ZEROLOCK_INVARIANT(states_.at(child) == State::absent, "a child is started once");
  if (stopped()) stop_from_ = states_.size();
  ZEROLOCK_INVARIANT(child < stop_from_, "nothing starts that is to stop");
  states_[child] = State::running;
}

void ChildOrder::down(std::size_t child) {
  states_.at(child) = State::absent;
}

void ChildOrder::stop_from(std::size_t child) {
  stop_from_ = std::min(stop_from_, child);
}

std::optional<std::size_t> ChildOrder::next_to_stop() {
  for (std::size_t i = states_.size(); i > stop_from_; --i) {
    if (states_[i - 1] == State::stopping) return std::nullopt;
    if (states_[i - 1] != State::running) continue;
    states_[i - 1] = State::stopping;
    return i - 1;
  }
  return std::nullopt;
}

bool ChildOrder::stopped() const {
  if (stop_from_ == states_.size()) return false;
  return std::all_of(states_.begin() + static_cast<std::ptrdiff_t>(stop_from_), states_.end(),
                     [](State state) { return state == State::absent; });
}

}  // namespace zerolock
