#pragma once
/// trace.json in Chrome's trace format: one row for each stage, one span for each piece of its time.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "actors/core/reports.hpp"

namespace zerolock {

/// Streams spans to a temporary file, so that a long run holds none of them in memory; finish() gives it its
/// name. One event a line. Used by one thread at a time.
class TraceFile {
 public:
  /// Events of an earlier session of the same run, if `file` is there, are kept; the new ones come `offset`
  /// later.
  TraceFile(std::filesystem::path file, std::uint64_t stages, std::chrono::duration<double> offset);

  void add(const TraceSpan& span);
  /// Closes the JSON and renames it to its name. Throws RunError if it cannot be written.
  void finish();

 private:
  void event(const std::string& json);

  std::filesystem::path file_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  std::chrono::duration<double> offset_;
  bool first_event_ = true;
};

}  // namespace zerolock
