#include "apps/report/svg_bars.hpp"

#include <algorithm>
#include <cstdio>

#include "apps/report/svg_parts.hpp"

namespace zerolock {

namespace {

constexpr double left = 120;
constexpr double bar_length_max = 620;
constexpr double bar_height = 20;
constexpr double bar_step = 28;
constexpr double top = 66;
constexpr double width = left + bar_length_max + 110;

double sum_of(const StackedBar& bar) {
  double sum = 0;
  for (const auto& [name, value] : bar.parts) sum += value;
  return sum;
}

std::string amount(double value, const std::string& unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f ", value);
  return text + unit;
}

}  // namespace

std::string svg_bars(const std::string& title, const std::string& unit, const std::vector<StackedBar>& bars) {
  std::vector<std::string> names;
  double longest = 0;
  for (const StackedBar& bar : bars) {
    longest = std::max(longest, sum_of(bar));
    for (const auto& [name, value] : bar.parts) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string svg = svg_opening(width, top + bar_step * static_cast<double>(bars.size()) + 10);
  svg += svg_text(width / 2, 22, "text-anchor=\"middle\" font-size=\"15\"", title);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double x = left + 100 * static_cast<double>(i);
    svg += svg_rectangle(x, 38, 12, 12, std::string("fill=\"") + svg_colour(i) + "\"");
    svg += svg_text(x + 16, 48, "text-anchor=\"start\"", names[i]);
  }
  double y = top;
  for (const StackedBar& bar : bars) {
    svg += svg_text(left - 8, y + bar_height * 0.75, "text-anchor=\"end\"", bar.name);
    double x = left;
    for (const auto& [name, value] : bar.parts) {
      const double length = longest > 0 ? value / longest * bar_length_max : 0;
      const auto look = std::find(names.begin(), names.end(), name) - names.begin();
      svg += svg_rectangle(x, y, length, bar_height,
                           std::string("fill=\"") + svg_colour(static_cast<std::size_t>(look)) + "\"",
                           bar.name + ": " + name + " " + amount(value, unit));
      x += length;
    }
    svg += svg_text(x + 6, y + bar_height * 0.75, "text-anchor=\"start\"", amount(sum_of(bar), unit));
    y += bar_step;
  }
  return svg + "</svg>\n";
}

}  // namespace zerolock
