#include "apps/report/tensorboard_scalars.hpp"

#include <cmath>
#include <string>

namespace zerolock {

TensorboardScalars::TensorboardScalars(const std::filesystem::path& folder, std::uint64_t stages,
                                       WindowIndex first_window)
    : file_(folder, static_cast<std::int64_t>(first_window.value)),
      written_(stages, first_window.value - 1),
      earlier_(std::chrono::steady_clock::now()) {}

void TensorboardScalars::add(const WindowReport& report) {
  std::uint64_t& written = written_.at(report.stage.value);
  if (report.window.value <= written) return;
  written = report.window.value;
  const std::string stage = "/stage-" + std::to_string(report.stage.value);
  std::vector<EventScalar> scalars;
  const auto put = [&scalars](const std::string& tag, double value) {
    if (std::isfinite(value)) scalars.push_back({tag, static_cast<float>(value)});
  };
  put("task_loss" + stage, report.loss.task_loss);
  put("consistency_loss" + stage, report.loss.consistency_loss);
  put("lr" + stage, report.step.learning_rate);
  put("grad_norm" + stage, report.step.gradient_norm);
  if (report.stage.value + 1 == written_.size()) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - earlier_).count();
    earlier_ = now;
    if (seconds > 0) put("examples_per_second", static_cast<double>(report.loss.examples) / seconds);
  }
  file_.add(static_cast<std::int64_t>(report.window.value), scalars);
}

}  // namespace zerolock
