#include "apps/report/svg_plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/report/svg_parts.hpp"

namespace zerolock {

namespace {

// Pixels.
constexpr double panel_width = 340;
constexpr double panel_height = 240;
constexpr double left_margin = 62;
constexpr double right_margin = 14;
constexpr double top_margin = 62;
constexpr double bottom_margin = 52;
constexpr double legend_width = 200;
constexpr double legend_line = 18;
constexpr const char* dashes[] = {"none", "6 3", "2 3"};  // tell lines apart that share a colour

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", std::abs(value) < 1e-12 ? 0.0 : value);
  return text;
}

std::string stroke_of(std::size_t line) {
  return std::string("fill=\"none\" stroke-width=\"1.8\" stroke=\"") + svg_colour(line) +
         "\" stroke-dasharray=\"" + dashes[line / svg_colour_count % std::size(dashes)] + "\"";
}

bool is_finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

/// A range of values and where it lies on the page.
class Axis {
 public:
  Axis(const std::vector<double>& values, double first_pixel, double last_pixel)
      : first_pixel_(first_pixel), last_pixel_(last_pixel) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    ticks_ = axis_ticks(*least, *most, 5);
  }

  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }
  [[nodiscard]] double at(double value) const {
    const double share = (value - ticks_.front()) / (ticks_.back() - ticks_.front());
    return first_pixel_ + share * (last_pixel_ - first_pixel_);
  }

 private:
  std::vector<double> ticks_;
  double first_pixel_;
  double last_pixel_;
};

std::vector<std::string> line_names(const std::vector<PlotPanel>& panels) {
  std::vector<std::string> names;
  for (const PlotPanel& panel : panels) {
    for (const PlotLine& line : panel.lines) {
      if (std::find(names.begin(), names.end(), line.name) == names.end()) names.push_back(line.name);
    }
  }
  return names;
}

std::string polyline(const PlotLine& line, std::size_t look, const Axis& x_axis, const Axis& y_axis) {
  std::string points;
  for (const auto& point : line.points) {
    if (!is_finite(point)) continue;
    points += (points.empty() ? "" : " ") + svg_pixel(x_axis.at(point.first)) + "," +
              svg_pixel(y_axis.at(point.second));
  }
  if (points.empty()) return "";
  return "<polyline points=\"" + points + "\" " + stroke_of(look) + "><title>" + escaped_markup(line.name) +
         "</title></polyline>\n";
}

std::string shaded(const PlotLine& line, std::size_t look, const Axis& x_axis, const Axis& y_axis) {
  std::string points;
  const auto add = [&](double x, double y) {
    if (is_finite({x, y}))
      points += (points.empty() ? "" : " ") + svg_pixel(x_axis.at(x)) + "," + svg_pixel(y_axis.at(y));
  };
  for (const PlotRange& range : line.band) add(range.x, range.most);
  for (auto range = line.band.rbegin(); range != line.band.rend(); ++range) add(range->x, range->least);
  if (points.empty()) return "";
  return "<polygon points=\"" + points + "\" fill=\"" + svg_colour(look) + "\" fill-opacity=\"0.15\"/>\n";
}

std::string panel_svg(const PlotPanel& panel, const std::vector<std::string>& names, double left) {
  const double right = left + panel_width;
  const double bottom = top_margin + panel_height;
  std::string svg = svg_text((left + right) / 2, top_margin - 12,
                             "text-anchor=\"middle\" font-weight=\"bold\"", panel.title);
  std::vector<double> xs;
  std::vector<double> ys;
  for (const PlotLine& line : panel.lines) {
    for (const auto& point : line.points) {
      if (!is_finite(point)) continue;
      xs.push_back(point.first);
      ys.push_back(point.second);
    }
    for (const PlotRange& range : line.band) {
      for (const double y : {range.least, range.most}) {
        if (is_finite({range.x, y})) ys.push_back(y);
      }
    }
  }
  if (xs.empty()) {
    return svg + svg_text((left + right) / 2, top_margin + panel_height / 2, "text-anchor=\"middle\"",
                          "nothing measured");
  }
  const Axis x_axis(xs, left, right);
  const Axis y_axis(ys, bottom, top_margin);
  for (const double tick : y_axis.ticks()) {
    svg += svg_line(left, y_axis.at(tick), right, y_axis.at(tick), "stroke=\"#dddddd\"");
    svg += svg_text(left - 6, y_axis.at(tick) + 4, "text-anchor=\"end\"", number(tick));
  }
  for (const double tick : x_axis.ticks()) {
    svg += svg_line(x_axis.at(tick), bottom, x_axis.at(tick), bottom + 4, "stroke=\"#555555\"");
    svg += svg_text(x_axis.at(tick), bottom + 18, "text-anchor=\"middle\"", number(tick));
  }
  svg += svg_line(left, bottom, right, bottom, "stroke=\"#555555\"");
  svg += svg_text((left + right) / 2, bottom + 38, "text-anchor=\"middle\"", panel.x_label);
  const std::string turned = "text-anchor=\"middle\" transform=\"rotate(-90 " + svg_pixel(left - 46) + " " +
                             svg_pixel((top_margin + bottom) / 2) + ")\"";
  svg += svg_text(left - 46, (top_margin + bottom) / 2, turned, panel.y_label);
  for (const PlotLine& line : panel.lines) {
    const auto look = std::find(names.begin(), names.end(), line.name) - names.begin();
    svg += shaded(line, static_cast<std::size_t>(look), x_axis, y_axis);
    svg += polyline(line, static_cast<std::size_t>(look), x_axis, y_axis);
  }
  return svg;
}

}  // namespace

std::vector<double> axis_ticks(double least, double most, int count) {
  if (!(most > least)) {  // a single value: something around it
    const double around = std::max(std::abs(least) * 0.1, 1e-3);
    least -= around;
    most += around;
  }
  const double rough = (most - least) / std::max(1, count);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const auto first = static_cast<std::int64_t>(std::floor(least / step + 1e-9));
  const auto last = static_cast<std::int64_t>(std::ceil(most / step - 1e-9));
  for (std::int64_t tick = first; tick <= last; ++tick) ticks.push_back(static_cast<double>(tick) * step);
  return ticks;
}

std::string svg_plot(const std::string& title, const std::vector<PlotPanel>& panels) {
  const std::vector<std::string> names = line_names(panels);
  const double one = left_margin + panel_width + right_margin;
  const double width = one * static_cast<double>(panels.size()) + legend_width;
  const double height = std::max(top_margin + panel_height + bottom_margin,
                                 top_margin + legend_line * static_cast<double>(names.size() + 1));
  std::string svg = svg_opening(width, height);
  svg += svg_text(width / 2, 24, "text-anchor=\"middle\" font-size=\"15\"", title);
  double left = left_margin;
  for (const PlotPanel& panel : panels) {
    svg += panel_svg(panel, names, left);
    left += one;
  }
  const double legend = one * static_cast<double>(panels.size()) + 10;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double y = top_margin + legend_line * static_cast<double>(i);
    svg += svg_line(legend, y, legend + 26, y, stroke_of(i));
    svg += svg_text(legend + 32, y + 4, "text-anchor=\"start\"", names[i]);
  }
  return svg + "</svg>\n";
}

}  // namespace zerolock
