#pragma once
/// Line plots as one SVG file that needs nothing else.

#include <string>
#include <utility>
#include <vector>

namespace zerolock {

/// A range of values at one place.
struct PlotRange {
  double x = 0;
  double least = 0;
  double most = 0;
};

/// Points in the order in which they are joined. Those that are not finite are left out.
struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points = {};  // x, y
  std::vector<PlotRange> band = {};                    // shaded around the line; none: no more than the line
};

/// One pair of axes, wide enough for all points of its lines.
struct PlotPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<PlotLine> lines;
};

/// Panels side by side with one legend: lines of the same name look the same in every panel. A panel without
/// a point says so.
std::string svg_plot(const std::string& title, const std::vector<PlotPanel>& panels);

/// Round numbers (1, 2 or 5 times a power of ten apart) from at most `least` to at least `most`, about
/// `count` of them. Both ends finite.
std::vector<double> axis_ticks(double least, double most, int count);

}  // namespace zerolock
