// report.html and TensorBoard's event files: what a run leaves for people to look at.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/bench/stage_delays.hpp"
#include "apps/command/run_report.hpp"
#include "apps/report/crc32c.hpp"
#include "apps/report/event_file.hpp"
#include "apps/report/plain_picture.hpp"
#include "apps/report/stage_timeline.hpp"
#include "apps/report/svg_bars.hpp"
#include "apps/report/svg_plot.hpp"
#include "apps/report/svg_timeline.hpp"
#include "apps/report/trace_report.hpp"
#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock;
using namespace zerolock::testing;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number number{};
  REQUIRE(at + sizeof number <= bytes.size());
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// The messages of a TFRecord file whose lengths and sums are right.
std::vector<std::string> messages_of(const std::string& file) {
  const auto masked = [](const std::string& bytes) {
    const std::uint32_t sum = crc32c(bytes);
    return ((sum >> 15U) | (sum << 17U)) + 0xA282EAD8U;
  };
  std::vector<std::string> messages;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_at<std::uint64_t>(file, at);
    REQUIRE(number_at<std::uint32_t>(file, at + 8) == masked(file.substr(at, 8)));
    messages.push_back(file.substr(at + 12, length));
    REQUIRE(number_at<std::uint32_t>(file, at + 12 + length) == masked(messages.back()));
    at += 16 + length;
  }
  return messages;
}

}  // namespace

TEST_CASE("CRC-32C gives RFC 3720's values", "[report]") {
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) rising.push_back(byte);
  CHECK(crc32c(rising) == 0x46DD794EU);
  CHECK(crc32c("") == 0);
}

TEST_CASE("A timeline stays bounded, however much is added to it", "[report]") {
  StageTimeline timeline;
  for (int i = 0; i < 20'000; ++i) {
    timeline.add(i % 3, i % 2 == 0 ? "forward" : "backward", i * 0.5, i * 0.5 + 0.4);
  }
  timeline.add(0, "unknown", 0, 1e9);
  timeline.add(0, "forward", -1, 1);
  CHECK(timeline.column_seconds() * StageTimeline::columns_max >= 10'000);
  CHECK(timeline.column_seconds() * StageTimeline::columns_max < 40'000);
  const std::string svg = timeline.svg("all");
  CHECK(svg.size() < 3 * StageTimeline::columns_max * 120);
  CHECK_THAT(svg, Contains("stage 2") && !Contains("stage 3"));

  // What took most of a column gives its colour: 8 of these 10 seconds are steps.
  StageTimeline mixed;
  for (int i = 0; i < 10; ++i) mixed.add(0, i < 2 ? "forward" : "step", i, i + 1);
  mixed.add(0, "restore", 10, 4000);
  const auto cell = [](TraceSpan::Kind kind) {  // the legend's have a frame
    return std::string("fill=\"") + span_look(kind).fill + "\"/>";
  };
  CHECK_THAT(mixed.svg("mixed"),
             Contains(cell(TraceSpan::Kind::step)) && !Contains(cell(TraceSpan::Kind::forward)));
}

TEST_CASE("Thinning keeps means and never exceeds the bound", "[report]") {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 1001; ++i) points.emplace_back(i, 2.0 * i);
  const auto few = thinned(points, 100);
  CHECK(few.size() <= 100);
  CHECK(few.front() == std::pair(5.0, 10.0));  // of 0 to 10
  CHECK(thinned(few, 100) == few);
}

TEST_CASE("Delays of records are told from a stage's spans", "[report]") {
  using Kind = TraceSpan::Kind;
  StageDelays delays;
  const auto add = [&delays](Kind kind, int begin, int end) {
    delays.add({kind,
                StageIndex{0},
                Incarnation{1},
                {WindowIndex{1}, 0},
                std::chrono::milliseconds(begin),
                std::chrono::milliseconds(end)});
  };
  for (const int start : {0, 100}) {
    add(Kind::wait_input, start, start + 7);
    add(Kind::forward, start + 10, start + 20);
    add(Kind::backward, start + 21, start + 40);
    add(Kind::step, start + 42, start + 43);
    add(Kind::checkpoint, start + 43, start + 60);
  }
  REQUIRE(delays.records().size() == 1);  // without the first
  CHECK(delays.records()[0].queue == Approx(110 - 43));
  CHECK(delays.records()[0].step == Approx(10 + 19 + 1));
  CHECK(delays.records()[0].total() == Approx(97));
  CHECK(delays.checkpoints() == 2);
  CHECK(quantile({4, 1, 3, 2}, 0.5) == 2);
  CHECK(quantile({1, 2, 3}, 0.95) == 3);
}

TEST_CASE("A trace tells of later lives, and of its middle windows in full", "[report]") {
  const TinyWorkplace place;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const auto add = [&text](int stage, const std::string& kind, int window, int incarnation) {
    const json event = {{"ph", "X"},
                        {"tid", stage},
                        {"ts", window * 1e6},
                        {"dur", 9e5},
                        {"args", {{"window", window}, {"micro_batch", 0}, {"incarnation", incarnation}}}};
    text += "{\"name\":\"" + kind + "\"," + event.dump().substr(1) + ",\n";
  };
  for (int window = 1; window <= 10; ++window) add(0, "forward", window, 1);
  for (int window = 1; window <= 6; ++window) add(1, "forward", window, 3);
  add(1, "restore", 5, 4);
  add(1, "forward", 6, 4);
  write_text(place.path("trace.json"), text + "]}\n");
  const TraceReport trace = read_trace(place.path("trace.json"), 10);
  REQUIRE(trace.lives.size() == 1);
  CHECK(trace.lives[0]["stage"] == 1);
  CHECK(trace.lives[0]["incarnation"] == 4);
  CHECK(trace.lives[0]["began with"] == "restore");
  CHECK(trace.excerpt_title == "Windows 5 and 6");
  CHECK(trace.excerpt_begin == Approx(5));
  CHECK_FALSE(trace.whole.empty());

  write_text(place.path("trace.json"), text + "{\"name\":\"forw");  // cut off
  CHECK(read_trace(place.path("trace.json"), 10).lives.size() == 1);
  write_text(place.path("trace.json"), text + "{\"name\":\"forward\",\n]}\n");
  CHECK_THROWS_WITH(read_trace(place.path("trace.json"), 10), Contains("trace.json line 20: not an event"));
}

TEST_CASE("A run leaves a page that needs nothing else, and event files on demand", "[report]") {
  const TinyWorkplace place;
  const CommandOutput trained =
      run_zerolock(place.train("run", {"--windows", "6", "--accumulate", "1", "--tensorboard"}));
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  const std::string page = read_text(place.path("run") / "report.html");
  CHECK_THAT(page, Contains("stage 2") && Contains("task loss") && Contains("Configuration") &&
                       Contains("finished") && Contains("6 of 6") && Contains("activations MiB"));
  CHECK_THAT(page, !Contains("://") && !Contains("src=") && !Contains("href"));
  CHECK(count_of(page, "<svg ") == count_of(page, "</svg>"));
  CHECK(count_of(page, "<svg ") >= 4);  // losses, two timelines, memory
  CHECK_THAT(page, Contains("seq = 64"));

  std::filesystem::remove(place.path("run") / "report.html");
  const CommandOutput reported = run_zerolock({"report", place.text_path("run")});
  INFO(reported.err);
  REQUIRE(reported.status == 0);
  CHECK(read_text(place.path("run") / "report.html") == page);

  std::vector<std::string> events;
  for (const auto& entry : std::filesystem::directory_iterator(place.path("run") / "tensorboard")) {
    CHECK_THAT(entry.path().filename().string(), Contains("tfevents"));
    events = messages_of(read_text(entry.path()));
  }
  REQUIRE(events.size() == 2 + 6 * 3);  // version, start, and one for each stage and window
  CHECK_THAT(events[0], Contains("brain.Event:2"));
  const std::string all = std::accumulate(events.begin(), events.end(), std::string());
  CHECK(count_of(all, "task_loss/stage-2") == 6);
  CHECK(count_of(all, "grad_norm/stage-0") == 6);
  CHECK(count_of(all, "examples_per_second") == 6);
}

TEST_CASE("Only pictures of this project's kind stand in a page", "[report]") {
  StageTimeline timeline;
  timeline.add(0, "forward", 0, 1);
  PlotLine line{"<a> & b", {{0, 1}, {1, 2}}};
  line.band = {{0, 0, 1}, {1, 1, 2}};
  CHECK(is_plain_picture(timeline.svg("all")));
  CHECK(is_plain_picture(svg_plot("\"Title\"", {{"Panel", "x", "y", {line}}})));
  CHECK(is_plain_picture(svg_bars("Bars", "MiB", {{"stage 0", {{"weights", 3}}}})));
  CHECK(is_plain_picture(svg_timeline("Runs", {{"one", 1, {}}})));
  CHECK(is_plain_picture("<svg width=\"1\"><text x=\"1\">onload = 1</text></svg>\n"));
  for (const std::string inside :
       {"<script>x()</script>", "<SCRIPT>x()</SCRIPT>", "<rect onclick=\"x()\"/>", "<rect/onclick=\"x()\"/>",
        "<a href=\"//elsewhere\"></a>", "<rect fill=\"url(//elsewhere)\"/>",
        "<rect fill=\"url&#40;//elsewhere&#41;\"/>", "<rect fill='red'/>", "<iframe srcdoc=\"&lt;b&gt;\"/>",
        "<text>", "</text>", "</svg><svg>", "<!-- -->", "<rect fill=\"red", "<",
        "<rect x=\"1\"  y=\"1\"/>"}) {
    INFO(inside);
    CHECK_FALSE(is_plain_picture("<svg width=\"1\">" + inside + "</svg>"));
  }
  CHECK_FALSE(is_plain_picture("<svg onload=\"x()\"></svg>"));
  CHECK_FALSE(is_plain_picture("<svg></svg><svg></svg>"));
  CHECK_FALSE(is_plain_picture("<svg></svg>text"));
  CHECK_FALSE(is_plain_picture("<rect/>"));
  CHECK_FALSE(is_plain_picture(""));
}

TEST_CASE("What is no run and no bench gets no page", "[report]") {
  const TinyWorkplace place;
  const auto refused = [&](const std::string& path, const std::string& reason) {
    const CommandOutput output = run_zerolock({"report", path});
    INFO(output.err);
    CHECK(output.status == 2);
    CHECK(output.error_lines().size() == 1);
    CHECK_THAT(output.err, Contains(reason));
  };
  refused(place.text_path("nowhere"), "there is no such file or folder");
  refused(place.model(), "holds neither a run");
  write_text(place.path("some.json"), "{\"bench\": 3}");
  refused(place.text_path("some.json"), "is not a bench's result");
  write_text(place.path("some.json"), R"({"bench": "x", "rows": [], "simulated": "yes"})");
  refused(place.text_path("some.json"), "is not a bench's result");

  const json bench = {{"bench", "memory"},
                      {"rows", {{{"stage", 0}, {"note", "<b>&"}}}},
                      {"ratios", {{"a / b", 0.25}}},
                      {"simulated", true}};
  write_text(place.path("memory.json"), bench.dump());
  const CommandOutput output =
      run_zerolock({"report", place.text_path("memory.json"), "--out", place.text_path("page.html")});
  INFO(output.err);
  REQUIRE(output.status == 0);
  check_refused({"report", place.text_path("memory.json"), "--out", place.model()}, "is a folder");
  CHECK_THAT(read_text(place.path("page.html")),
             Contains("&lt;b&gt;&amp;") && Contains("0.25") && Contains("Simulated"));
}
