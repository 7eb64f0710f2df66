#pragma once
/// What stages did when, as one SVG file that needs nothing else.

#include <cstdint>
#include <string>
#include <vector>

#include "actors/core/reports.hpp"

namespace zerolock {

/// One line of bars for each stage, over the same time.
struct TimelinePanel {
  std::string title;
  std::uint64_t stages = 1;
  std::vector<TraceSpan> spans;  // times from 0
};

/// Panels below each other, each with its own scale of time, and one legend of the kinds that occur. Bars of
/// less than a fifth of a pixel are left out.
std::string svg_timeline(const std::string& title, const std::vector<TimelinePanel>& panels);

}  // namespace zerolock
