/// zerolock bench recovery: one stage fails, is away for some windows and makes up for them alone, against
/// all stages going back.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "apps/bench/results_folder.hpp"
#include "apps/bench/stage_recovery_run.hpp"
#include "apps/bench/whole_replay_run.hpp"
#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/report/bench_table.hpp"
#include "apps/report/svg_timeline.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

enum Case : std::size_t { process_killed, worker_died, one_f_one_b, all_restarted, case_count };

constexpr std::array<const char*, case_count> names{"process killed", "worker died", "1f1b from W4",
                                                    "all restarted at W4"};

constexpr std::uint64_t entry_numbers_max = std::uint64_t{1} << 26U;  // 256 MiB; stages keep several

std::chrono::nanoseconds milliseconds(double value) {
  return std::chrono::nanoseconds(std::llround(value * 1e6));
}

class BenchRecoveryCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "recovery"; }
  [[nodiscard]] const char* summary() const override {
    return "one stage away for four windows, against a rollback of all: time and bytes";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench recovery --rounds 5 --out runs/recovery";
  }

  void declare(OptionTable& table) override {
    table.real("forward-ms", forward_ms_, {0.1, 1000, false}, "of a stage and micro-batch, simulated");
    table.real("backward-ms", backward_ms_, {0.1, 1000, false}, "the same");
    table.real("step-ms", step_ms_, {0, 1000, false}, "of an optimizer step, simulated");
    table.integer("rows", rows_, 2, 65'536, "tokens of a micro-batch");
    table.integer("width", width_, 1, 65'536, "numbers of a hidden state's row, 4 bytes each");
    table.integer("state-kib", state_kib_, 0, 1'048'576, "of a stage's checkpoint, beside its few numbers");
    table.integer("rounds", rounds_, 1, 1000, "of all cases, one after the other; medians are printed");
    table.path("out", out_, "folder for recovery.json and recovery.svg, the last round's timelines");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable&) override {
    if (rows_ * width_ > entry_numbers_max) {
      throw InputError("--rows", std::to_string(rows_) + " rows of --width " + std::to_string(width_) +
                                     " are too much for a micro-batch: at most " +
                                     std::to_string(entry_numbers_max) + " numbers");
    }
    require_results_folder(out_);
    start_log(log_);
    prepare_compute();
    const RecoveryShape shape = this->shape();
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < case_count; ++i) {
        measured_[i].push_back(measure(static_cast<Case>(i), shape));
        spdlog::info("round {} of {}, {}: {:.3f} s", round + 1, rounds_, names[i],
                     measured_[i].back().seconds);
      }
    }
    const BenchResult result = this->result();
    std::fputs((json_ ? result.to_json() : result.to_table()).c_str(), stdout);
    keep_results(out_, result, timelines());
    return status_done;
  }

 private:
  [[nodiscard]] RecoveryShape shape() const {
    RecoveryShape shape;
    shape.rows = static_cast<std::int64_t>(rows_);
    shape.width = static_cast<std::int64_t>(width_);
    shape.compute.durations = {milliseconds(forward_ms_), milliseconds(backward_ms_), milliseconds(step_ms_),
                               false};
    shape.compute.state_bytes = static_cast<std::int64_t>(state_kib_ * 1024);
    return shape;
  }

  [[nodiscard]] static RecoveryMeasure measure(Case which, const RecoveryShape& shape) {
    const TemporaryFolder folder;
    switch (which) {
      case process_killed:
        return measure_stage_recovery(shape, StageFailure::process_killed, folder.path());
      case worker_died:
        return measure_stage_recovery(shape, StageFailure::worker_died, folder.path());
      case one_f_one_b:
        return measure_whole_replay(shape, WholeReplay::one_f_one_b, folder.path());
      default:
        return measure_whole_replay(shape, WholeReplay::zerolock, folder.path());
    }
  }

  /// Of one figure over the rounds.
  [[nodiscard]] std::vector<double> over_rounds(std::size_t which, double RecoveryMeasure::*figure) const {
    std::vector<double> values;
    for (const RecoveryMeasure& measure : measured_[which]) values.push_back(measure.*figure);
    return values;
  }

  [[nodiscard]] static bool alone(std::size_t which) {
    return which == process_killed || which == worker_died;
  }

  [[nodiscard]] BenchResult result() const {
    BenchResult result;
    result.bench = "recovery";
    result.simulated = true;
    for (std::size_t i = 0; i < case_count; ++i) result.rows.push_back(row_of(i));
    for (const std::size_t i : {process_killed, worker_died}) {
      for (const std::size_t other : {one_f_one_b, all_restarted}) add_ratios(result, i, other);
    }
    return result;
  }

  [[nodiscard]] nlohmann::ordered_json row_of(std::size_t which) const {
    const std::vector<double> seconds = over_rounds(which, &RecoveryMeasure::seconds);
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    const RecoveryMeasure& last = measured_[which].back();
    nlohmann::ordered_json row = {
        {"case", names[which]},
        {"seconds", median(seconds)},
        {"least", *least},
        {"most", *most},
        {"micro_batch_times", median(seconds) * 1000 / (forward_ms_ + backward_ms_)},
        {"entries", last.moved.entries},
        {"payload_bytes", last.moved.payload_bytes},
        {"wire_bytes", last.moved.wire_bytes},
        {"entries_again", nullptr},
        {"payload_bytes_again", nullptr},
        {"state_bytes", nullptr}};
    if (!alone(which)) return row;
    row["entries_again"] = last.moved_again.entries;
    row["payload_bytes_again"] = last.moved_again.payload_bytes;
    row["state_bytes"] = last.state_bytes;
    return row;
  }

  /// Rounds are compared with themselves, since both cases of one met the same machine.
  void add_ratios(BenchResult& result, std::size_t which, std::size_t other) const {
    const std::string of = std::string(names[which]) + " / " + names[other];
    const auto ratio = [&](double RecoveryMeasure::*figure) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < measured_[which].size(); ++round) {
        ratios.push_back(measured_[which][round].*figure / measured_[other][round].*figure);
      }
      return median(ratios);
    };
    result.ratios["time, " + of] = ratio(&RecoveryMeasure::seconds);
    result.ratios["time to the last stage's commit, " + of] = ratio(&RecoveryMeasure::seconds_to_last_stage);
    const RecoveryMeasure& mine = measured_[which].back();
    const Crossings& theirs = measured_[other].back().moved;
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return static_cast<double>(part) / static_cast<double>(whole);
    };
    result.ratios["payload bytes, " + of] = share(mine.moved.payload_bytes, theirs.payload_bytes);
    result.ratios["wire bytes, " + of] = share(mine.moved.wire_bytes, theirs.wire_bytes);
    result.ratios["payload bytes moved again, " + of] =
        share(mine.moved_again.payload_bytes, theirs.payload_bytes);
  }

  /// Of the last round, each run from its first span on.
  [[nodiscard]] std::string timelines() const {
    std::vector<TimelinePanel> panels;
    for (std::size_t i = 0; i < case_count; ++i) {
      TimelinePanel panel{names[i], RecoveryShape{}.stages, measured_[i].back().spans};
      auto first = std::chrono::nanoseconds::max();
      for (const TraceSpan& span : panel.spans) first = std::min(first, span.begin);
      for (TraceSpan& span : panel.spans) {
        span.begin -= first;
        span.end -= first;
      }
      panels.push_back(std::move(panel));
    }
    return svg_timeline("Stage 1 is away for W4 to W7 and makes up for them (simulated compute)", panels);
  }

  double forward_ms_ = 40;
  double backward_ms_ = 40;
  double step_ms_ = 1;
  std::uint64_t rows_ = 128;
  std::uint64_t width_ = 576;
  std::uint64_t state_kib_ = 1024;
  std::uint64_t rounds_ = 3;
  std::optional<std::filesystem::path> out_;
  bool json_ = false;
  LogOptions log_;
  std::array<std::vector<RecoveryMeasure>, case_count> measured_;
};

}  // namespace

std::unique_ptr<Command> make_bench_recovery_command() {
  return std::make_unique<BenchRecoveryCommand>();
}

}  // namespace zerolock
