#pragma once
/// An HTML page that needs nothing but itself: text, tables and inline pictures.

#include <nlohmann/json.hpp>
#include <string>

namespace zerolock {

class ReportPage {
 public:
  explicit ReportPage(std::string title);

  void heading(const std::string& text);
  void paragraph(const std::string& text);
  /// Rows are flat objects with the same keys, which name the columns. Of more than `rows_max` the first are
  /// shown, and how many are left out is said.
  void table(const nlohmann::ordered_json& rows);
  /// Names and values of a flat object, one below the other.
  void facts(const nlohmann::ordered_json& object);
  /// A picture as svg_plot makes it.
  void figure(const std::string& svg);
  /// Text as it stands; of more than `text_bytes_max` the beginning.
  void verbatim(const std::string& text);

  [[nodiscard]] std::string html() const;

  static constexpr std::size_t rows_max = 200;
  static constexpr std::size_t text_bytes_max = 20'000;

 private:
  std::string title_;
  std::string body_;
};

/// A cell's text: four significant digits of a real number, "-" for null.
std::string report_cell(const nlohmann::ordered_json& value);

}  // namespace zerolock
