#include "apps/report/trace_report.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::size_t excerpt_spans_max = 20'000;
constexpr std::size_t lives_max = 200;

struct Span {
  std::size_t stage = 0;
  std::string kind;
  double begin = 0;  // seconds
  double end = 0;
  std::uint64_t window = 0;
  std::uint64_t incarnation = 0;
};

Span span_of(const nlohmann::json& event) {
  Span span;
  span.stage = event.at("tid").get<std::size_t>();
  span.kind = event.at("name").get<std::string>();
  span.begin = event.at("ts").get<double>() * 1e-6;
  span.end = span.begin + event.at("dur").get<double>() * 1e-6;
  span.window = event.at("args").at("window").get<std::uint64_t>();
  span.incarnation = event.at("args").at("incarnation").get<std::uint64_t>();
  return span;
}

/// The first span of each life of a stage, by stage and incarnation.
using Lives = std::map<std::pair<std::size_t, std::uint64_t>, Span>;

void note_life(Lives& lives, const Span& span) {
  const std::pair key(span.stage, span.incarnation);
  const auto known = lives.find(key);
  if (known != lives.end()) {
    if (span.begin < known->second.begin) known->second = span;
  } else if (lives.size() < lives_max) {
    lives.emplace(key, span);
  }
}

nlohmann::ordered_json lives_after_the_first(const Lives& lives) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::map<std::size_t, std::uint64_t> first;
  for (const auto& [key, span] : lives) first.try_emplace(key.first, key.second);
  for (const auto& [key, span] : lives) {
    if (first.at(key.first) == key.second) continue;
    rows.push_back({{"stage", key.first},
                    {"incarnation", key.second},
                    {"at second", span.begin},
                    {"window", span.window},
                    {"began with", span.kind}});
  }
  return rows;
}

}  // namespace

TraceReport read_trace(const std::filesystem::path& file, std::uint64_t windows) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file.string(), "cannot be read");
  TraceReport report;
  const std::uint64_t middle = std::max<std::uint64_t>(1, (windows + 1) / 2);
  std::vector<Span> excerpt;
  Lives lives;
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (!line.starts_with("{\"name\"")) continue;  // what stands around the events
    if (line.back() == ',') line.pop_back();
    try {
      const auto event = nlohmann::json::parse(line);
      if (event.at("ph") != "X") continue;
      Span span = span_of(event);
      report.whole.add(span.stage, span.kind, span.begin, span.end);
      note_life(lives, span);
      const bool wanted = span.window == middle || span.window == middle + 1;
      if (wanted && excerpt.size() < excerpt_spans_max) excerpt.push_back(std::move(span));
    } catch (const nlohmann::json::exception& error) {
      if (stream.eof()) break;  // the file ends within the line, where its copying was cut off
      throw InputError(file.string() + " line " + std::to_string(number),
                       std::string("not an event of a trace: ") + error.what());
    }
  }
  report.lives = lives_after_the_first(lives);
  if (excerpt.empty()) return report;
  const auto earlier = [](const Span& left, const Span& right) { return left.begin < right.begin; };
  report.excerpt_begin = std::min_element(excerpt.begin(), excerpt.end(), earlier)->begin;
  report.excerpt_title = "Windows " + std::to_string(middle) + " and " + std::to_string(middle + 1);
  for (const Span& span : excerpt) {
    report.excerpt.add(span.stage, span.kind, span.begin - report.excerpt_begin,
                       span.end - report.excerpt_begin);
  }
  return report;
}

}  // namespace zerolock
