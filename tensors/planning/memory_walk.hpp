#pragma once
/// Adds up memory as a stage would take and give it, without taking any.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tensors/base/memory_account.hpp"

namespace zerolock {

/// Bytes of one stage at their highest, for each component.
struct PlannedMemory {
  std::array<std::int64_t, memory_component_count> peaks{};  // by MemoryComponent
  std::int64_t total = 0;  // at any one moment: the components do not all peak together

  [[nodiscard]] std::int64_t of(MemoryComponent component) const {
    return peaks.at(static_cast<std::size_t>(component));
  }
};

/// What is held now, and the highest so far, as a MemoryAccount would have it.
class MemoryWalk {
 public:
  void take(MemoryComponent component, std::int64_t bytes) {
    const auto c = static_cast<std::size_t>(component);
    now_.at(c) += bytes;
    highest_.peaks.at(c) = std::max(highest_.peaks.at(c), now_.at(c));
    total_now_ += bytes;
    highest_.total = std::max(highest_.total, total_now_);
  }
  void give(MemoryComponent component, std::int64_t bytes) {
    now_.at(static_cast<std::size_t>(component)) -= bytes;
    total_now_ -= bytes;
  }
  /// Taken and given back at once.
  void touch(MemoryComponent component, std::int64_t bytes) {
    take(component, bytes);
    give(component, bytes);
  }
  [[nodiscard]] const PlannedMemory& highest() const { return highest_; }

 private:
  std::array<std::int64_t, memory_component_count> now_{};
  std::int64_t total_now_ = 0;
  PlannedMemory highest_;
};

}  // namespace zerolock
