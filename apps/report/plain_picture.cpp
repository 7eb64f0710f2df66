#include "apps/report/plain_picture.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace zerolock {

namespace {

using namespace std::string_view_literals;

constexpr std::array elements{"svg"sv, "rect"sv, "line"sv, "polyline"sv, "polygon"sv, "text"sv, "title"sv};
constexpr std::array attributes{"xmlns"sv,
                                "width"sv,
                                "height"sv,
                                "viewBox"sv,
                                "x"sv,
                                "y"sv,
                                "x1"sv,
                                "y1"sv,
                                "x2"sv,
                                "y2"sv,
                                "points"sv,
                                "fill"sv,
                                "fill-opacity"sv,
                                "stroke"sv,
                                "stroke-width"sv,
                                "stroke-dasharray"sv,
                                "font-family"sv,
                                "font-size"sv,
                                "font-weight"sv,
                                "text-anchor"sv,
                                "transform"sv};
constexpr std::string_view spaces = " \t\r\n";

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Reads tags one after the other; what follows a '<' that is no such tag makes the picture a foreign one.
class TagReader {
 public:
  explicit TagReader(std::string_view rest) : rest_(rest) {}

  /// False at the first thing that is not plain.
  bool read_all() {
    for (;;) {
      if (!read_tag()) return false;
      const std::size_t next = rest_.find('<');
      if (open_.empty()) return rest_.find_first_not_of(spaces) == std::string_view::npos;
      if (next == std::string_view::npos) return false;
      rest_.remove_prefix(next);
    }
  }

 private:
  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  std::string_view take_until(std::string_view ends) {
    const std::string_view taken = rest_.substr(0, std::min(rest_.size(), rest_.find_first_of(ends)));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  bool read_tag() {
    if (take("</")) {
      if (open_.empty() || take_until(">") != open_.back()) return false;
      open_.pop_back();
      return take(">");
    }
    if (!take("<")) return false;
    const std::string_view name = take_until(" />");
    if (!is_among(elements, name) || (open_.empty() && name != "svg")) return false;
    while (take(" ")) {
      if (!read_attribute()) return false;
    }
    if (take("/>")) return true;
    open_.push_back(name);
    return take(">");
  }

  bool read_attribute() {
    const std::string_view name = take_until("= />");
    if (!is_among(attributes, name) || !take("=\"")) return false;
    const std::string_view value = take_until("\"");
    // A name in brackets may be an address, as in fill="url(...)", and & may hide either.
    const bool calls = value.find_first_of("(&<") != std::string_view::npos;
    return take("\"") && (!calls || (name == "transform" && value.starts_with("rotate(")));
  }

  std::string_view rest_;
  std::vector<std::string_view> open_;
};

}  // namespace

bool is_plain_picture(std::string_view svg) {
  return TagReader(svg).read_all();
}

}  // namespace zerolock
