#pragma once
/// What the trace of a run says about its pace: rate, how busy its stages were, and how close they came to
/// the best that their own work allows. Pure arithmetic.

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/core/reports.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// Of repeated measurements.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};
/// At least one value.
Spread spread_of(std::vector<double> values);

/// How y grows with x: the exponent e of y = a x^e that fits best by the squares of logarithms. At least two
/// points with different x, all numbers above 0.
double growth_exponent(const std::vector<std::pair<double, double>>& points);

/// Of a run's steady part.
struct RunFigures {
  double windows_per_second = 0;
  std::vector<double> busy_seconds;  // of each stage and window, between two steps: forward, backward, step
  /// Share of the time that each stage computed, from where the last stage committed the first window of the
  /// steady part to where the first stage committed the last one.
  std::vector<double> active;

  [[nodiscard]] std::size_t slowest_stage() const;
  /// The rate against that of a slowest stage that never waits: at most 1.
  [[nodiscard]] double utilisation() const { return windows_per_second * busy_seconds[slowest_stage()]; }
};

/// The steady part of each stage goes from its step of window `first` to its step of window `last`; the rate
/// is that of the stage which took longest, so that none that catches up or runs ahead counts. Throws
/// std::logic_error if a stage lacks one of the two steps.
RunFigures run_figures(const std::vector<TraceSpan>& spans, std::uint64_t stages, WindowIndex first,
                       WindowIndex last);

/// Spans of windows from the last stage's step of `first` on to its step of `last`, with times from there.
std::vector<TraceSpan> excerpt(const std::vector<TraceSpan>& spans, std::uint64_t stages, WindowIndex first,
                               WindowIndex last);

}  // namespace zerolock
