#pragma once
/// What a page shows of trace.json: bounded, however long the trace is.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/report/stage_timeline.hpp"

namespace zerolock {

struct TraceReport {
  StageTimeline whole;
  StageTimeline excerpt;  // two windows from the middle of the run
  std::string excerpt_title;
  double excerpt_begin = 0;  // seconds
  /// Incarnations after the first: stage, incarnation, the window and second it begins with. At most 200.
  nlohmann::ordered_json lives = nlohmann::ordered_json::array();
};

/// Reads a trace that TraceFile wrote, a line at a time. `windows`: that the run has committed. Throws
/// InputError with the line that is not an event.
TraceReport read_trace(const std::filesystem::path& file, std::uint64_t windows);

}  // namespace zerolock
