#include "apps/report/svg_parts.hpp"

#include <cstdio>
#include <iterator>

namespace zerolock {

namespace {

constexpr const char* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#000000"};
static_assert(std::size(colours) == svg_colour_count);

}  // namespace

std::string escaped_markup(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

const char* svg_colour(std::size_t index) {
  return colours[index % svg_colour_count];
}

std::string svg_pixel(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string svg_text(double x, double y, const std::string& attributes, const std::string& text) {
  return "<text x=\"" + svg_pixel(x) + "\" y=\"" + svg_pixel(y) + "\" " + attributes + ">" +
         escaped_markup(text) + "</text>\n";
}

std::string svg_line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return "<line x1=\"" + svg_pixel(x1) + "\" y1=\"" + svg_pixel(y1) + "\" x2=\"" + svg_pixel(x2) +
         "\" y2=\"" + svg_pixel(y2) + "\" " + attributes + "/>\n";
}

std::string svg_rectangle(double x, double y, double width, double height, const std::string& attributes,
                          const std::string& title) {
  const std::string opening = "<rect x=\"" + svg_pixel(x) + "\" y=\"" + svg_pixel(y) + "\" width=\"" +
                              svg_pixel(width) + "\" height=\"" + svg_pixel(height) + "\" " + attributes;
  if (title.empty()) return opening + "/>\n";
  return opening + "><title>" + escaped_markup(title) + "</title></rect>\n";
}

std::string svg_opening(double width, double height) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + svg_pixel(width) + "\" height=\"" +
         svg_pixel(height) + "\" viewBox=\"0 0 " + svg_pixel(width) + " " + svg_pixel(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

}  // namespace zerolock
