#include "apps/command/trace_file.hpp"

#include <nlohmann/json.hpp>

#include "apps/report/span_look.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

double microseconds(std::chrono::duration<double> time) {
  return time.count() * 1e6;
}

}  // namespace

TraceFile::TraceFile(std::filesystem::path file, std::uint64_t stages, std::chrono::duration<double> offset)
    : file_(std::move(file)), temporary_(file_), offset_(offset) {
  temporary_ += ".tmp";
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) throw RunError(temporary_.string() + ": cannot be created");
  stream_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  std::ifstream earlier(file_, std::ios::binary);
  for (std::string line; std::getline(earlier, line);) {
    // Only the lines this class wrote as events begin with a name.
    if (line.rfind("{\"name\"", 0) != 0) continue;
    if (line.back() == ',') line.pop_back();
    if (line.find("\"ph\":\"M\"") == std::string::npos) event(line);
  }
  for (std::uint64_t stage = 0; stage < stages; ++stage) {
    const nlohmann::ordered_json row = {{"name", "thread_name"},
                                        {"ph", "M"},
                                        {"pid", 1},
                                        {"tid", stage},
                                        {"args", {{"name", "stage " + std::to_string(stage)}}}};
    event(row.dump());
  }
}

void TraceFile::event(const std::string& json) {
  stream_ << (first_event_ ? "\n" : ",\n") << json;
  first_event_ = false;
}

void TraceFile::add(const TraceSpan& span) {
  const nlohmann::ordered_json json = {{"name", span_look(span.kind).name},
                                       {"ph", "X"},
                                       {"pid", 1},
                                       {"tid", span.stage.value},
                                       {"ts", microseconds(offset_ + span.begin)},
                                       {"dur", microseconds(span.end - span.begin)},
                                       {"args",
                                        {{"window", span.position.window.value},
                                         {"micro_batch", span.position.micro_batch},
                                         {"incarnation", span.incarnation.value}}}};
  event(json.dump());
}

void TraceFile::finish() {
  stream_ << "\n]}\n";
  stream_.close();
  if (!stream_) throw RunError(temporary_.string() + ": cannot be written");
  std::filesystem::rename(temporary_, file_);
}

}  // namespace zerolock
