#pragma once
/// metrics.jsonl: a line for each stage and window, each pair once.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "actors/core/reports.hpp"

namespace zerolock {

/// Lines are appended as windows commit, so that others can follow; a replay or a resumed run replaces what
/// it does again. Used by one thread at a time.
class MetricsFile {
 public:
  /// Keeps the whole lines of an earlier session up to and including window `keep_through`.
  MetricsFile(std::filesystem::path file, WindowIndex keep_through);

  void add(const WindowReport& report);
  /// Rewrites the file in order of window and stage, atomically.
  void finish();

  /// Lines by window and stage.
  [[nodiscard]] const std::map<std::pair<std::uint64_t, std::uint64_t>, nlohmann::ordered_json>& lines()
      const {
    return lines_;
  }

 private:
  std::filesystem::path file_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, nlohmann::ordered_json> lines_;
  std::ofstream stream_;
};

}  // namespace zerolock
