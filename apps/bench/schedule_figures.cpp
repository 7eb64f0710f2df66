#include "apps/bench/schedule_figures.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using std::chrono::nanoseconds;

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

bool computes(const TraceSpan& span) {
  return span.kind == TraceSpan::Kind::forward || span.kind == TraceSpan::Kind::backward ||
         span.kind == TraceSpan::Kind::step;
}

nanoseconds committed(const std::vector<TraceSpan>& spans, std::uint64_t stage, WindowIndex window) {
  const auto found = std::find_if(spans.begin(), spans.end(), [&](const TraceSpan& span) {
    return span.kind == TraceSpan::Kind::step && span.stage.value == stage && span.position.window == window;
  });
  ZEROLOCK_INVARIANT(found != spans.end(), "every stage has stepped in every window");
  return found->end;
}

/// What `span` has in common with the time between `begin` and `end`.
nanoseconds within(const TraceSpan& span, nanoseconds begin, nanoseconds end) {
  return std::max(nanoseconds{0}, std::min(span.end, end) - std::max(span.begin, begin));
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  ZEROLOCK_INVARIANT(!values.empty(), "something was measured");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double growth_exponent(const std::vector<std::pair<double, double>>& points) {
  double mean_x = 0;
  double mean_y = 0;
  const auto count = static_cast<double>(points.size());
  for (const auto& [x, y] : points) {
    mean_x += std::log(x) / count;
    mean_y += std::log(y) / count;
  }
  double together = 0;
  double squares = 0;
  for (const auto& [x, y] : points) {
    together += (std::log(x) - mean_x) * (std::log(y) - mean_y);
    squares += (std::log(x) - mean_x) * (std::log(x) - mean_x);
  }
  ZEROLOCK_INVARIANT(squares > 0, "points with different x");
  return together / squares;
}

std::size_t RunFigures::slowest_stage() const {
  return static_cast<std::size_t>(std::max_element(busy_seconds.begin(), busy_seconds.end()) -
                                  busy_seconds.begin());
}

RunFigures run_figures(const std::vector<TraceSpan>& spans, std::uint64_t stages, WindowIndex first,
                       WindowIndex last) {
  ZEROLOCK_INVARIANT(stages > 0 && first < last, "a steady part has stages and windows");
  const auto windows = static_cast<double>(last.value - first.value);
  std::vector<nanoseconds> begins;
  std::vector<nanoseconds> ends;
  nanoseconds longest{0};
  for (std::uint64_t stage = 0; stage < stages; ++stage) {
    begins.push_back(committed(spans, stage, first));
    ends.push_back(committed(spans, stage, last));
    longest = std::max(longest, ends.back() - begins.back());
  }
  const nanoseconds all_have_work = begins.back();
  const nanoseconds runs_dry = ends.front();
  RunFigures figures;
  figures.windows_per_second = windows / seconds(longest);
  figures.busy_seconds.assign(stages, 0);
  figures.active.assign(stages, 0);
  for (const TraceSpan& span : spans) {
    const std::uint64_t stage = span.stage.value;
    if (!computes(span) || stage >= stages) continue;
    figures.busy_seconds[stage] += seconds(within(span, begins[stage], ends[stage])) / windows;
    figures.active[stage] += seconds(within(span, all_have_work, runs_dry));
  }
  const double together = seconds(runs_dry - all_have_work);
  for (double& active : figures.active) active = together > 0 ? active / together : 0;
  return figures;
}

std::vector<TraceSpan> excerpt(const std::vector<TraceSpan>& spans, std::uint64_t stages, WindowIndex first,
                               WindowIndex last) {
  const nanoseconds begin = committed(spans, stages - 1, first);
  const nanoseconds end = committed(spans, stages - 1, last);
  std::vector<TraceSpan> cut;
  for (TraceSpan span : spans) {
    if (within(span, begin, end) == nanoseconds{0}) continue;
    span.begin = std::max(span.begin, begin) - begin;
    span.end = std::min(span.end, end) - begin;
    cut.push_back(span);
  }
  return cut;
}

}  // namespace zerolock
