#include "apps/report/bench_table.hpp"

#include <algorithm>
#include <vector>

#include "apps/report/report_page.hpp"

namespace zerolock {

std::string BenchResult::to_json() const {
  const nlohmann::ordered_json json = {
      {"bench", bench}, {"rows", rows}, {"ratios", ratios}, {"simulated", simulated}};
  return json.dump() + "\n";
}

std::string BenchResult::to_table() const {
  std::vector<std::vector<std::string>> lines;
  if (!rows.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : rows.front().items()) names.push_back(name);
    lines.push_back(names);
  }
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : row.items()) cells.push_back(report_cell(value));
    lines.push_back(cells);
  }
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()), 0);
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += std::string(widths[i] - line[i].size(), ' ') + line[i] + (i + 1 < line.size() ? "  " : "\n");
    }
  }
  for (const auto& [name, value] : ratios.items()) text += name + ": " + report_cell(value) + "\n";
  return text;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace zerolock
