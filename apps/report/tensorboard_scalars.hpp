#pragma once
/// A run's numbers as TensorBoard shows them.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "actors/core/reports.hpp"
#include "apps/report/event_file.hpp"

namespace zerolock {

/// task_loss, consistency_loss, lr and grad_norm of each stage ("task_loss/stage-0"), and examples_per_second
/// of the whole, all by window. A window that a stage does again is not written again. Used by one thread at
/// a time.
class TensorboardScalars {
 public:
  /// Throws RunError if the folder cannot be written to.
  TensorboardScalars(const std::filesystem::path& folder, std::uint64_t stages, WindowIndex first_window);

  void add(const WindowReport& report);

 private:
  EventFile file_;
  std::vector<std::uint64_t> written_;             // by stage: the last window
  std::chrono::steady_clock::time_point earlier_;  // when the last stage committed the window before
};

}  // namespace zerolock
