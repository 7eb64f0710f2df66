#pragma once
/// What a benchmark prints: a table for people, or one JSON object.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerolock {

struct BenchResult {
  std::string bench;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();  // flat objects with the same keys
  nlohmann::ordered_json ratios = nlohmann::ordered_json::object();
  bool simulated = false;  // true if no model was computed

  [[nodiscard]] std::string to_json() const;
  /// Columns named by the rows' keys, then a line for each ratio.
  [[nodiscard]] std::string to_table() const;
};

/// The upper one of the two in the middle, if there are two. Not of nothing.
double median(std::vector<double> values);

}  // namespace zerolock
