#include "apps/command/progress_display.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace zerolock {

namespace {

constexpr int bar_width = 24;

std::string format(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

}  // namespace

std::string clock_text(std::chrono::duration<double> duration) {
  const auto seconds = static_cast<std::uint64_t>(std::max(0.0, std::round(duration.count())));
  char buffer[64];
  if (seconds >= 3600) {
    std::snprintf(
        buffer, sizeof buffer, "%llu:%02llu:%02llu", static_cast<unsigned long long>(seconds / 3600),
        static_cast<unsigned long long>(seconds / 60 % 60), static_cast<unsigned long long>(seconds % 60));
  } else {
    std::snprintf(buffer, sizeof buffer, "%llu:%02llu", static_cast<unsigned long long>(seconds / 60),
                  static_cast<unsigned long long>(seconds % 60));
  }
  return buffer;
}

ProgressDisplay::ProgressDisplay(std::uint64_t stages, WindowIndex first, WindowIndex last, bool terminal)
    : first_(first.value),
      last_(last.value),
      terminal_(terminal),
      windows_per_line_(std::max<std::uint64_t>(1, (last.value - first.value + lines_max) / lines_max)),
      start_(std::chrono::steady_clock::now()),
      losses_(stages, std::nan("")) {}

void ProgressDisplay::calibrated(StageIndex stage) {
  calibrated_.insert(stage.value);
  if (windows_done_ == 0) start_ = std::chrono::steady_clock::now();
  const std::string line = calibration_line(stage);
  if (terminal_) {
    draw(calibrated_.size(), losses_.size(), line);
  } else {
    spdlog::info("{}", line);
  }
}

void ProgressDisplay::window_committed(const WindowReport& report) {
  losses_.at(report.stage.value) = report.loss.task_loss;
  if (report.stage.value + 1 != losses_.size()) return;
  const std::uint64_t done = report.window.value - first_ + 1;
  if (done <= windows_done_) return;  // a replayed window
  windows_done_ = done;
  examples_ += report.loss.examples;
  const std::string line = status_line(std::chrono::steady_clock::now() - start_);
  if (terminal_) {
    draw(windows_done_, last_ - first_ + 1, line);
  } else if (done % windows_per_line_ == 0 || report.window.value == last_) {
    spdlog::info("{}", line);
  }
}

void ProgressDisplay::draw(std::uint64_t done, std::uint64_t of, const std::string& line) {
  const auto filled = static_cast<std::size_t>(bar_width * done / std::max<std::uint64_t>(1, of));
  const std::string bar = std::string(filled, '#') + std::string(bar_width - filled, '.');
  std::fprintf(stderr, "\r\x1b[K[%s] %s", bar.c_str(), line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressDisplay::finish() {
  if (drawn_) std::fputs("\n", stderr);
  drawn_ = false;
}

std::string ProgressDisplay::calibration_line(StageIndex stage) const {
  return "calibrating: stage " + std::to_string(stage.value) + " done (" +
         std::to_string(calibrated_.size()) + " of " + std::to_string(losses_.size()) + ")";
}

std::string ProgressDisplay::status_line(std::chrono::duration<double> elapsed) const {
  std::string line = "window " + std::to_string(first_ - 1 + windows_done_) + "/" + std::to_string(last_);
  const double seconds = std::max(1e-9, elapsed.count());
  line += " | " + format("%.1f", static_cast<double>(examples_) / seconds) + " examples/s | loss";
  for (const double loss : losses_) line += std::isnan(loss) ? " -" : format(" %.4f", loss);
  if (windows_done_ > 0) {
    const double left = static_cast<double>(last_ - first_ + 1 - windows_done_);
    line += " | " + clock_text(elapsed * (left / static_cast<double>(windows_done_))) + " left";
  }
  return line;
}

}  // namespace zerolock
