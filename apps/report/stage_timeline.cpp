#include "apps/report/stage_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/report/svg_parts.hpp"
#include "apps/report/svg_plot.hpp"

namespace zerolock {

namespace {

constexpr double left = 70;
constexpr double picture_width = 1024;
constexpr double right_margin = 20;
constexpr double top = 66;
constexpr double row_height = 18;
constexpr double row_step = 22;
std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", std::abs(seconds) < 1e-12 ? 0.0 : seconds);
  return text;
}

std::string legend() {
  std::string svg;
  double x = left;
  for (const SpanLook& look : span_looks) {
    svg += svg_rectangle(x, 36, 12, 12, std::string("fill=\"") + look.fill + "\" stroke=\"#999999\"");
    svg += svg_text(x + 16, 46, "text-anchor=\"start\"", std::string(look.name));
    x += 34 + 6.5 * static_cast<double>(look.name.size());
  }
  return svg;
}

}  // namespace

void StageTimeline::widen_to(double end) {
  while (end > column_seconds_ * static_cast<double>(columns_max)) {
    column_seconds_ *= 2;
    for (std::vector<Cell>& row : rows_) {
      for (std::size_t pair = 0; 2 * pair < row.size(); ++pair) {
        Cell merged = row[2 * pair];
        for (std::size_t kind = 0; 2 * pair + 1 < row.size() && kind < span_looks.size(); ++kind) {
          merged[kind] += row[2 * pair + 1][kind];
        }
        row[pair] = merged;
      }
      row.resize((row.size() + 1) / 2);
    }
  }
}

void StageTimeline::add(std::size_t stage, std::string_view kind, double begin, double end) {
  const auto* found = std::find_if(span_looks.begin(), span_looks.end(),
                                   [&](const SpanLook& look) { return look.name == kind; });
  if (found == span_looks.end() || !(begin >= 0) || !(end >= begin) || !std::isfinite(end) ||
      stage >= stages_max) {
    return;
  }
  widen_to(end);
  end_ = std::max(end_, end);
  if (rows_.size() <= stage) rows_.resize(stage + 1);
  std::vector<Cell>& row = rows_[stage];
  const auto column_of = [this](double time) {
    return std::min(columns_max - 1, static_cast<std::size_t>(time / column_seconds_));
  };
  const std::size_t last = column_of(end);
  if (row.size() <= last) row.resize(last + 1, Cell{});
  for (std::size_t column = column_of(begin); column <= last; ++column) {
    const double from = std::max(begin, static_cast<double>(column) * column_seconds_);
    const double to = std::min(end, static_cast<double>(column + 1) * column_seconds_);
    row[column][static_cast<std::size_t>(found - span_looks.begin())] +=
        static_cast<float>(std::max(0.0, to - from));
  }
}

std::string StageTimeline::row_svg(std::size_t stage, double y, double column_width) const {
  const std::vector<Cell>& row = rows_[stage];
  /// The kind that took most of a column; span_looks.size() if less than a hundredth of it was anything.
  const auto look_of = [&](std::size_t column) {
    const Cell& cell = row[column];
    const auto most = std::max_element(cell.begin(), cell.end());
    return *most < 0.01 * column_seconds_ ? span_looks.size() : static_cast<std::size_t>(most - cell.begin());
  };
  std::string svg;
  for (std::size_t first = 0; first < row.size();) {
    const std::size_t look = look_of(first);
    std::size_t end = first + 1;
    while (end < row.size() && look_of(end) == look) ++end;
    if (look < span_looks.size()) {
      svg += svg_rectangle(left + static_cast<double>(first) * column_width, y,
                           static_cast<double>(end - first) * column_width, row_height,
                           std::string("fill=\"") + span_looks[look].fill + "\"");
    }
    first = end;
  }
  return svg;
}

std::string StageTimeline::svg(const std::string& title, double origin) const {
  const double bottom = top + row_step * static_cast<double>(rows_.size());
  const double columns = std::max(1.0, std::ceil(end_ / column_seconds_));
  const double column_width = picture_width / columns;
  const double width = left + picture_width + right_margin;
  std::string svg = svg_opening(width, bottom + 48);
  svg += svg_text(width / 2, 20, "text-anchor=\"middle\" font-size=\"15\"", title);
  svg += legend();
  for (std::size_t stage = 0; stage < rows_.size(); ++stage) {
    const double y = top + row_step * static_cast<double>(stage);
    svg += svg_text(left - 8, y + row_height * 0.75, "text-anchor=\"end\"", "stage " + std::to_string(stage));
    svg += row_svg(stage, y, column_width);
  }
  const double shown = columns * column_seconds_;
  for (const double tick : axis_ticks(origin, origin + shown, 8)) {
    if (tick < origin || tick > origin + shown) continue;
    const double x = left + (tick - origin) / shown * picture_width;
    svg += svg_line(x, bottom, x, bottom + 5, "stroke=\"#555555\"");
    svg += svg_text(x, bottom + 19, "text-anchor=\"middle\"", seconds_text(tick));
  }
  svg += svg_text(left + picture_width / 2, bottom + 38, "text-anchor=\"middle\"", "seconds");
  return svg + "</svg>\n";
}

}  // namespace zerolock
