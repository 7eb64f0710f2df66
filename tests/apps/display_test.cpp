// The parts of the command line that need no process: suggestions, progress, sampling, the resolved text of
// values.

#include <ATen/ATen.h>

#include <cmath>

#include "apps/command/nearest_name.hpp"
#include "apps/command/option_table.hpp"
#include "apps/command/progress_display.hpp"
#include "apps/command/token_sampler.hpp"
// Last: Catch's macros must win over those of LibTorch's logging.
#include <catch2/catch.hpp>

using namespace zerolock;

TEST_CASE("edit distance counts insertions, deletions, replacements and swaps") {
  CHECK(edit_distance("stages", "stages") == 0);
  CHECK(edit_distance("stagse", "stages") == 1);
  CHECK(edit_distance("stage", "stages") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(nearest_name("sede", {"seed", "steps"}) == "seed");
  CHECK_FALSE(nearest_name("zzzz", {"seed", "steps"}).has_value());
}

TEST_CASE("numbers are written so that they read back") {
  for (const double value : {3e-3, 0.1, 1.0, 1e-4, 1.0 / 3.0, 1e300}) {
    CHECK(parse_real(number_text(value), {0, 1e308, true}, "x") == value);
  }
  CHECK(toml_string("a\"b\\c\n") == "\"a\\\"b\\\\c\\u000A\"");
}

TEST_CASE("progress lines say window, rate, losses and time left") {
  ProgressDisplay progress(2, WindowIndex{1}, WindowIndex{8}, false);
  WindowReport report;
  report.loss.task_loss = 1.25;
  report.loss.examples = 32;
  report.window = WindowIndex{1};
  report.stage = StageIndex{0};
  progress.window_committed(report);
  report.stage = StageIndex{1};
  report.loss.task_loss = 0.5;
  progress.window_committed(report);
  CHECK(progress.status_line(std::chrono::seconds(4)) ==
        "window 1/8 | 8.0 examples/s | loss 1.2500 0.5000 | 0:28 left");
  progress.window_committed(report);  // a replay counts once
  CHECK(progress.status_line(std::chrono::seconds(4)) ==
        "window 1/8 | 8.0 examples/s | loss 1.2500 0.5000 | 0:28 left");
  CHECK(clock_text(std::chrono::seconds(3725)) == "1:02:05");
}

TEST_CASE("progress says which stages are calibrated") {
  ProgressDisplay progress(3, WindowIndex{1}, WindowIndex{8}, false);
  progress.calibrated(StageIndex{2});
  CHECK(progress.calibration_line(StageIndex{2}) == "calibrating: stage 2 done (1 of 3)");
  progress.calibrated(StageIndex{0});
  progress.calibrated(StageIndex{0});  // told again, counted once
  CHECK(progress.calibration_line(StageIndex{0}) == "calibrating: stage 0 done (2 of 3)");
}

TEST_CASE("sampling follows temperature, top-k and top-p") {
  const at::Tensor logits = at::log(at::tensor({0.1, 0.4, 0.3, 0.2}, at::kDouble));
  CHECK(TokenSampler({0, 0, 1, 1}).choose(logits) == 1);

  const auto counts = [&logits](const SamplingOptions& options) {
    TokenSampler sampler(options);
    std::vector<int> seen(4, 0);
    for (int draw = 0; draw < 20000; ++draw) ++seen[static_cast<std::size_t>(sampler.choose(logits))];
    return seen;
  };
  const std::vector<int> all = counts({1, 0, 1, 7});
  const std::vector<double> expected{0.1, 0.4, 0.3, 0.2};
  for (std::size_t token = 0; token < 4; ++token) {
    // Five standard deviations of a binomial count.
    const double deviation = std::sqrt(20000 * expected[token] * (1 - expected[token]));
    CHECK(std::abs(all[token] - 20000 * expected[token]) < 5 * deviation);
  }
  CHECK(counts({1, 0, 1, 7}) == all);
  const std::vector<int> two = counts({1, 2, 1, 7});
  CHECK(two[0] + two[3] == 0);
  CHECK(two[2] > 0);
  const std::vector<int> nucleus = counts({1, 0, 0.65, 7});  // 0.4 + 0.3 reach 0.65
  CHECK(nucleus[0] + nucleus[3] == 0);
  CHECK(nucleus[2] > 0);
  const std::vector<int> cold = counts({0.01, 0, 1, 7});
  CHECK(cold[1] == 20000);
}
