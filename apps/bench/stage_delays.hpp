#pragma once
/// How long records take in a stage, from the spans of its time.

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/core/reports.hpp"

namespace zerolock {

/// Of one record (a micro-batch that is a window of its own), in milliseconds.
struct RecordDelay {
  double queue = 0;  // from the end of the record before to the beginning of this one's forward
  double step = 0;   // forward, backward and optimizer step
  [[nodiscard]] double total() const { return queue + step; }
};

/// Takes the spans of one stage in their order. Times of different stages are never compared: each process
/// has its own clock.
class StageDelays {
 public:
  void add(const TraceSpan& span);
  /// In the order of the records. The first record, which waits for the run to start, is not among them.
  [[nodiscard]] const std::vector<RecordDelay>& records() const { return records_; }
  [[nodiscard]] std::uint64_t checkpoints() const { return checkpoints_; }

 private:
  std::optional<std::chrono::nanoseconds> free_since_;  // when the record before ended
  std::optional<std::chrono::nanoseconds> forward_begin_;
  std::chrono::nanoseconds busy_{0};
  std::vector<RecordDelay> records_;
  std::uint64_t checkpoints_ = 0;
};

/// The smallest value that at least `share` of them do not exceed. Throws std::logic_error for none.
double quantile(std::vector<double> values, double share);

}  // namespace zerolock
