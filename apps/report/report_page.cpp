#include "apps/report/report_page.hpp"

#include <cstdio>
#include <utility>
#include <vector>

#include "apps/report/svg_parts.hpp"

namespace zerolock {

namespace {

constexpr const char* style =
    "body{font-family:sans-serif;margin:2em auto;max-width:1140px;color:#222;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}"
    "td,th{border:1px solid #ccc;padding:.25em .6em;text-align:right}"
    "th{background:#f3f3f3}td:first-child,th:first-child{text-align:left}"
    "figure{margin:1em 0;overflow-x:auto}pre{background:#f6f6f6;padding:1em;overflow-x:auto}";

}  // namespace

std::string report_cell(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (!value.is_number_float()) return value.dump();
  char text[64];
  std::snprintf(text, sizeof text, "%.4g", value.get<double>());
  return text;
}

ReportPage::ReportPage(std::string title) : title_(std::move(title)) {}

void ReportPage::heading(const std::string& text) {
  body_ += "<h2>" + escaped_markup(text) + "</h2>\n";
}

void ReportPage::paragraph(const std::string& text) {
  body_ += "<p>" + escaped_markup(text) + "</p>\n";
}

void ReportPage::table(const nlohmann::ordered_json& rows) {
  if (rows.empty()) return;
  std::vector<std::string> names;
  body_ += "<table>\n<tr>";
  for (const auto& [name, value] : rows.front().items()) {
    names.push_back(name);
    body_ += "<th>" + escaped_markup(name) + "</th>";
  }
  body_ += "</tr>\n";
  std::size_t shown = 0;
  for (const auto& row : rows) {
    if (shown++ == rows_max) break;
    body_ += "<tr>";
    for (const std::string& name : names) {
      body_ += "<td>" + escaped_markup(report_cell(row.value(name, nlohmann::ordered_json()))) + "</td>";
    }
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
  if (rows.size() > rows_max) {
    paragraph("The first " + std::to_string(rows_max) + " of " + std::to_string(rows.size()) + " rows.");
  }
}

void ReportPage::facts(const nlohmann::ordered_json& object) {
  body_ += "<table>\n";
  for (const auto& [name, value] : object.items()) {
    body_ +=
        "<tr><td>" + escaped_markup(name) + "</td><td>" + escaped_markup(report_cell(value)) + "</td></tr>\n";
  }
  body_ += "</table>\n";
}

void ReportPage::figure(const std::string& svg) {
  // Within HTML a picture needs no namespace, and the page then names no address at all.
  static const std::string name_space = " xmlns=\"http://www.w3.org/2000/svg\"";
  std::string inner = svg;
  if (const std::size_t at = inner.find(name_space); at != std::string::npos)
    inner.erase(at, name_space.size());
  body_ += "<figure>\n" + inner + "</figure>\n";
}

void ReportPage::verbatim(const std::string& text) {
  body_ += "<pre>" + escaped_markup(text.substr(0, text_bytes_max)) + "</pre>\n";
  if (text.size() > text_bytes_max) {
    paragraph("The first " + std::to_string(text_bytes_max) + " of " + std::to_string(text.size()) +
              " bytes.");
  }
}

std::string ReportPage::html() const {
  const std::string title = escaped_markup(title_);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + title +
         "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n" + body_ +
         "</body>\n</html>\n";
}

}  // namespace zerolock
