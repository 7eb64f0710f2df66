#pragma once
/// Stacked horizontal bars as an SVG picture.

#include <string>
#include <utility>
#include <vector>

namespace zerolock {

struct StackedBar {
  std::string name;
  std::vector<std::pair<std::string, double>> parts;  // name, not negative; drawn from the left
};

/// One bar below the other, with a legend of the parts' names and each bar's sum behind it in `unit`.
std::string svg_bars(const std::string& title, const std::string& unit, const std::vector<StackedBar>& bars);

}  // namespace zerolock
