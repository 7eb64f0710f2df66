#include "apps/report/svg_timeline.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/report/span_look.hpp"
#include "apps/report/svg_parts.hpp"
#include "apps/report/svg_plot.hpp"

namespace zerolock {

namespace {

// Pixels.
constexpr double left_margin = 70;
constexpr double right_margin = 20;
constexpr double top_margin = 64;
constexpr double lanes_width = 900;
constexpr double lane_height = 22;
constexpr double lane_gap = 4;
constexpr double panel_title = 20;
constexpr double panel_foot = 34;
constexpr double bar_least = 0.2;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return svg_text(x, y, std::string("text-anchor=\"") + anchor + "\"", text);
}

std::string bar(double x, double y, double width, double height, const char* fill) {
  return svg_rectangle(x, y, width, height, std::string("fill=\"") + fill + "\"");
}

double panel_height(const TimelinePanel& panel) {
  return panel_title + static_cast<double>(panel.stages) * (lane_height + lane_gap) + panel_foot;
}

double lane_top(double top, std::uint64_t stage) {
  return top + panel_title + static_cast<double>(stage) * (lane_height + lane_gap);
}

std::string panel_svg(const TimelinePanel& panel, double top) {
  double end = 0;
  for (const TraceSpan& span : panel.spans) end = std::max(end, seconds(span.end));
  std::string svg = label(left_margin, top + 12, "start", panel.title);
  for (std::uint64_t stage = 0; stage < panel.stages; ++stage) {
    svg += label(left_margin - 8, lane_top(top, stage) + 15, "end", "stage " + std::to_string(stage));
  }
  if (end <= 0) return svg + label(left_margin + lanes_width / 2, top + 30, "middle", "nothing recorded");
  for (const TraceSpan& span : panel.spans) {
    const double begin_x = seconds(span.begin) / end * lanes_width;
    const double width = seconds(span.end) / end * lanes_width - begin_x;
    if (width < bar_least || span.stage.value >= panel.stages) continue;
    svg += bar(left_margin + begin_x, lane_top(top, span.stage.value), width, lane_height,
               span_look(span.kind).fill);
  }
  const double foot = lane_top(top, panel.stages);
  for (const double tick : axis_ticks(0, end, 8)) {
    if (tick > end) continue;
    svg += label(left_margin + tick / end * lanes_width, foot + 12, "middle", number(tick) + " s");
  }
  return svg;
}

bool occurs(TraceSpan::Kind kind, const std::vector<TimelinePanel>& panels) {
  return std::any_of(panels.begin(), panels.end(), [&](const TimelinePanel& panel) {
    return std::any_of(panel.spans.begin(), panel.spans.end(),
                       [&](const TraceSpan& span) { return span.kind == kind; });
  });
}

}  // namespace

std::string svg_timeline(const std::string& title, const std::vector<TimelinePanel>& panels) {
  double height = top_margin;
  for (const TimelinePanel& panel : panels) height += panel_height(panel);
  std::string svg = svg_opening(left_margin + lanes_width + right_margin, height);
  svg += label((left_margin + lanes_width) / 2, 20, "middle", title);
  double legend = left_margin;
  for (const SpanLook& look : span_looks) {
    if (!occurs(look.kind, panels)) continue;
    svg += bar(legend, 34, 14, 12, look.fill) + label(legend + 20, 44, "start", std::string(look.name));
    legend += 170;
  }
  double top = top_margin;
  for (const TimelinePanel& panel : panels) {
    svg += panel_svg(panel, top);
    top += panel_height(panel);
  }
  return svg + "</svg>\n";
}

}  // namespace zerolock
