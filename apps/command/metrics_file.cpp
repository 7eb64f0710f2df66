#include "apps/command/metrics_file.hpp"

#include <chrono>
#include <cmath>
#include <string>

#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

MetricsFile::MetricsFile(std::filesystem::path file, WindowIndex keep_through) : file_(std::move(file)) {
  std::ifstream earlier(file_, std::ios::binary);
  for (std::string line; std::getline(earlier, line);) {
    // The last line of a run that was killed may be torn.
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("stage") || !json.contains("window")) continue;
    const std::uint64_t window = json["window"].get<std::uint64_t>();
    if (window <= keep_through.value) lines_[{window, json["stage"].get<std::uint64_t>()}] = json;
  }
  earlier.close();
  finish();
  stream_.open(file_, std::ios::binary | std::ios::app);
  if (!stream_) throw RunError(file_.string() + ": cannot be written");
}

namespace {

/// Null for the loss of a stage that has none.
nlohmann::ordered_json loss_of(double loss) {
  return std::isnan(loss) ? nlohmann::ordered_json() : nlohmann::ordered_json(loss);
}

}  // namespace

void MetricsFile::add(const WindowReport& report) {
  nlohmann::ordered_json json = {{"stage", report.stage.value},
                                 {"window", report.window.value},
                                 {"task_loss", loss_of(report.loss.task_loss)},
                                 {"consistency_loss", loss_of(report.loss.consistency_loss)},
                                 {"loss", loss_of(report.loss.loss)},
                                 {"lr", report.step.learning_rate},
                                 {"grad_norm", report.step.gradient_norm},
                                 {"examples", report.loss.examples},
                                 {"supervised", report.loss.supervised_rows},
                                 {"seconds", std::chrono::duration<double>(report.busy).count()}};
  const std::pair<std::uint64_t, std::uint64_t> key{report.window.value, report.stage.value};
  const bool known = lines_.count(key) > 0;
  if (!known) stream_ << json.dump() << '\n' << std::flush;
  lines_[key] = std::move(json);
}

void MetricsFile::finish() {
  std::string text;
  for (const auto& [key, json] : lines_) text += json.dump() + "\n";
  write_text_file(file_, text);
}

}  // namespace zerolock
