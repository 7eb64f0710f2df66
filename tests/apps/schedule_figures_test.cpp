// What a trace says about a run's pace.

#include "apps/bench/schedule_figures.hpp"
#include "apps/report/svg_timeline.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

using namespace zerolock;
using std::chrono::milliseconds;
using Kind = TraceSpan::Kind;

namespace {

TraceSpan span(Kind kind, std::uint64_t stage, std::uint64_t window, int begin, int end) {
  return {kind,
          StageIndex{stage},
          Incarnation{1},
          {WindowIndex{window}, 0},
          milliseconds(begin),
          milliseconds(end)};
}

/// Two stages, a micro-batch a window. Stage 0 works 30 ms for each and never waits; stage 1 works 20 ms as
/// soon as it has its input, 10 ms after stage 0 began.
std::vector<TraceSpan> two_stages(std::uint64_t windows) {
  std::vector<TraceSpan> spans;
  for (std::uint64_t w = 1; w <= windows; ++w) {
    const int begin = static_cast<int>(w - 1) * 30;
    spans.push_back(span(Kind::forward, 0, w, begin, begin + 10));
    spans.push_back(span(Kind::backward, 0, w, begin + 10, begin + 29));
    spans.push_back(span(Kind::step, 0, w, begin + 29, begin + 30));
    spans.push_back(span(Kind::forward, 1, w, begin + 10, begin + 20));
    spans.push_back(span(Kind::backward, 1, w, begin + 20, begin + 29));
    spans.push_back(span(Kind::step, 1, w, begin + 29, begin + 30));
    spans.push_back(span(Kind::wait_input, 1, w, begin + 30, begin + 40));
    spans.push_back(span(Kind::checkpoint, 1, w, begin + 30, begin + 60));  // another thread's time
  }
  return spans;
}

}  // namespace

TEST_CASE("the rate of a run is that of the stage that took longest, its bound that of the busiest") {
  const RunFigures figures = run_figures(two_stages(6), 2, WindowIndex{2}, WindowIndex{6});
  CHECK(figures.windows_per_second == Approx(1 / 0.030));
  CHECK(figures.busy_seconds[0] == Approx(0.030));
  CHECK(figures.busy_seconds[1] == Approx(0.020));
  CHECK(figures.slowest_stage() == 0);
  CHECK(figures.utilisation() == Approx(1.0));
  CHECK(figures.active[0] == Approx(1.0));
  CHECK(figures.active[1] == Approx(2.0 / 3));
}

TEST_CASE("a stage that catches up does not raise the rate") {
  std::vector<TraceSpan> spans = two_stages(6);
  for (TraceSpan& piece : spans) {  // stage 1 begins late, and then goes through what has piled up
    if (piece.stage.value == 0 || piece.position.window.value > 2) continue;
    piece.begin += milliseconds(25);
    piece.end += milliseconds(25);
  }
  const RunFigures figures = run_figures(spans, 2, WindowIndex{2}, WindowIndex{6});
  CHECK(figures.windows_per_second == Approx(1 / 0.030));
  CHECK(figures.utilisation() == Approx(1.0));
}

TEST_CASE("waiting of the slowest stage shows in the utilisation") {
  std::vector<TraceSpan> spans;
  for (std::uint64_t w = 1; w <= 3; ++w) {  // 25 ms of work in 50
    const int begin = static_cast<int>(w) * 50;
    spans.push_back(span(Kind::backward, 0, w, begin, begin + 20));
    spans.push_back(span(Kind::step, 0, w, begin + 20, begin + 25));
  }
  CHECK(run_figures(spans, 1, WindowIndex{1}, WindowIndex{3}).utilisation() == Approx(0.5));
  CHECK_THROWS_AS(run_figures(spans, 1, WindowIndex{1}, WindowIndex{4}), std::logic_error);
}

TEST_CASE("an excerpt holds what lies between two windows, from 0 on") {
  const auto cut = excerpt(two_stages(6), 2, WindowIndex{2}, WindowIndex{3});
  REQUIRE_FALSE(cut.empty());
  for (const TraceSpan& piece : cut) {
    CHECK(piece.begin >= milliseconds(0));
    CHECK(piece.end <= milliseconds(30));
    CHECK(piece.begin < piece.end);
  }
  const std::string svg = svg_timeline("a run", {{"zerolock", 2, cut}, {"nothing", 1, {}}});
  CHECK(svg.find("stage 1") != std::string::npos);
  CHECK(svg.find("nothing recorded") != std::string::npos);
  CHECK(svg.find(">backward<") != std::string::npos);
  CHECK(svg.find(">restore<") == std::string::npos);  // there is none
}

TEST_CASE("spreads and growth") {
  const Spread odd = spread_of({3, 1, 2});
  CHECK(odd.median == 2);
  CHECK(odd.least == 1);
  CHECK(odd.most == 3);
  CHECK(spread_of({4, 1, 2, 3}).median == 2.5);
  CHECK(growth_exponent({{2, 20}, {4, 40}, {64, 640}}) == Approx(1.0));
  CHECK(growth_exponent({{2, 4}, {8, 64}}) == Approx(2.0));
}
