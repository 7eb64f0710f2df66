#pragma once
/// How far training is: a bar that is redrawn on a terminal, a bounded number of lines on a pipe.

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "actors/core/reports.hpp"

namespace zerolock {

/// Takes window reports of all stages, from one thread. Writes to stderr.
class ProgressDisplay {
 public:
  /// `first` and `last`: the windows of this session. At most `lines_max` lines are written to a pipe.
  ProgressDisplay(std::uint64_t stages, WindowIndex first, WindowIndex last, bool terminal);

  /// The stage's readout is fitted. Rates count from the last of these before the first window.
  void calibrated(StageIndex stage);
  void window_committed(const WindowReport& report);
  /// Ends the bar's line, so that other lines can follow.
  void finish();

  /// "window 3/32 | 41.2 examples/s | loss 1.203 0.984 0.771 | 0:42 left"
  [[nodiscard]] std::string status_line(std::chrono::duration<double> elapsed) const;
  /// "calibrating: stage 1 done (2 of 3)"
  [[nodiscard]] std::string calibration_line(StageIndex stage) const;

  static constexpr std::uint64_t lines_max = 40;

 private:
  /// Draws over the terminal's line: a bar filled to that part, and the text.
  void draw(std::uint64_t done, std::uint64_t of, const std::string& line);

  std::uint64_t first_;
  std::uint64_t last_;
  bool terminal_;
  bool drawn_ = false;
  std::uint64_t windows_per_line_;
  std::chrono::steady_clock::time_point start_;
  std::int64_t examples_ = 0;       // that passed the last stage
  std::uint64_t windows_done_ = 0;  // by the last stage
  std::vector<double> losses_;      // the latest of each stage
  std::set<std::uint64_t> calibrated_;
};

/// "1:02:03" or "2:03"
std::string clock_text(std::chrono::duration<double> duration);

}  // namespace zerolock
