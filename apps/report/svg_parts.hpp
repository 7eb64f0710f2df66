#pragma once
/// The pieces that pictures are made of. Coordinates are pixels.

#include <cstddef>
#include <string>

namespace zerolock {

/// Text with what HTML and SVG would take for markup replaced.
std::string escaped_markup(const std::string& text);

/// Okabe and Ito's colours, which people with any colour vision tell apart; they begin again after the last.
inline constexpr std::size_t svg_colour_count = 7;
const char* svg_colour(std::size_t index);

/// A coordinate to a hundredth of a pixel.
std::string svg_pixel(double value);

/// `attributes` as they stand in the element.
std::string svg_text(double x, double y, const std::string& attributes, const std::string& text);
std::string svg_line(double x1, double y1, double x2, double y2, const std::string& attributes);
/// With a text that shows where a pointer rests on it, unless that is empty.
std::string svg_rectangle(double x, double y, double width, double height, const std::string& attributes,
                          const std::string& title = "");

/// The opening tag of a picture and its white ground; "</svg>" ends it.
std::string svg_opening(double width, double height);

}  // namespace zerolock
