#pragma once
/// The numbers that name places in a run. Each is a type of its own, so that a window cannot be passed for a
/// stage.

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace zerolock {

/// A counter that only compares with counters of its own kind.
template <class Tag>
struct Index {
  std::uint64_t value = 0;

  constexpr auto operator<=>(const Index&) const = default;
  /// The one after this.
  [[nodiscard]] constexpr Index next() const { return Index{value + 1}; }
};

/// Stage k = 0..K-1: one chunk of layers with its trainable state.
using StageIndex = Index<struct StageTag>;

/// An update window: m micro-batches and one optimizer step. Training windows count from 1; window 0 stands
/// for the seeded initial state, so "durable window 0" means that nothing has been trained yet.
using WindowIndex = Index<struct WindowTag>;

/// The lives of a stage worker, counted from 1. Messages of an earlier life are ignored.
using Incarnation = Index<struct IncarnationTag>;

/// One micro-batch of a run: its window and its place 0..m-1 within the window. Ordered as trained.
struct BatchPosition {
  WindowIndex window;
  std::uint64_t micro_batch = 0;

  constexpr auto operator<=>(const BatchPosition&) const = default;
};

/// Decoder layers first..last-1 of the model.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;  // exclusive

  constexpr auto operator<=>(const LayerRange&) const = default;
  [[nodiscard]] constexpr std::int64_t count() const { return last - first; }
};

/// "window 3, micro-batch 1"
std::string to_string(const BatchPosition& position);

/// Serialisation of any Index or BatchPosition for CAF and others that follow its visitor convention.
template <class Inspector, class Tag>
auto inspect(Inspector& f, Index<Tag>& x) {
  return f(x.value);
}
template <class Inspector>
auto inspect(Inspector& f, BatchPosition& x) {
  return f(x.window, x.micro_batch);
}
template <class Inspector>
auto inspect(Inspector& f, LayerRange& x) {
  return f(x.first, x.last);
}

}  // namespace zerolock

template <class Tag>
struct std::hash<zerolock::Index<Tag>> {
  std::size_t operator()(const zerolock::Index<Tag>& index) const noexcept {
    return std::hash<std::uint64_t>{}(index.value);
  }
};
