#pragma once
/// What a benchmark prints: a table for people, or one JSON object.

#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace zerolock
