#pragma once
/// What crossed the edge of an executor's process, a line of JSON for each item: `executor --traffic FILE`.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "actors/remote/traffic.hpp"

namespace zerolock {

/// Appends; each line is handed to the system at once, so that a process that is killed leaves what it saw.
/// Thread-safe.
class TrafficFile {
 public:
  /// Throws InputError if it cannot be written.
  explicit TrafficFile(const std::filesystem::path& file);
  void add(const TrafficItem& item);

 private:
  std::mutex mutex_;
  std::ofstream stream_;
};

struct TrafficRecord {
  std::chrono::steady_clock::time_point time;  // of the machine that wrote it
  TrafficItem item;
};

/// All lines in order; a last one that was cut off by a kill is left out. Throws InputError that names file
/// and line for anything else that is not such a line.
std::vector<TrafficRecord> read_traffic(const std::filesystem::path& file);

}  // namespace zerolock
