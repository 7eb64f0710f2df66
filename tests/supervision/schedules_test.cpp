/// Whole runs of the schedules that backpropagate across stages, compared with the same lists of steps worked
/// off without actors.

#include "actors/core/training_schedule.hpp"
#include "tests/supervision/cluster_support.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using Kind = ClusterOutcome::Kind;

namespace {

const std::vector<TrainingSchedule> across_stages = {TrainingSchedule::gpipe, TrainingSchedule::one_f_one_b,
                                                     TrainingSchedule::pipedream};

BackendFactory simulated_with(TrainingSchedule schedule) {
  return [reach = gradient_reach(schedule)](StageIndex stage, MemoryAccount&) {
    return make_simulated_backend(stage, simulated_width, {}, false, reach);
  };
}

ClusterCase case_of(TrainingSchedule schedule) {
  ClusterCase given;
  given.plan.schedule = schedule;
  given.make_backend = simulated_with(schedule);
  return given;
}

/// All steps of a stage, window after window.
std::vector<ScheduledStep> whole_list(TrainingSchedule schedule, std::uint64_t stage,
                                      const ClusterCase& given, const CountingBatches& batches) {
  const WindowSchedule make = window_schedule(schedule, StageIndex{stage}, given.stages);
  const MicroBatchCount count = [&batches](WindowIndex window) { return batches.micro_batches(window); };
  std::vector<ScheduledStep> all;
  BatchPosition next{WindowIndex{1}, 0};
  for (WindowIndex window{1}; window.value <= given.windows; window = window.next()) {
    for (const ScheduledStep& step : make({window, next, WindowIndex{given.windows}, count})) {
      if (step.kind == ScheduledStep::Kind::forward) next = position_after(step.position, count);
      all.push_back(step);
    }
  }
  return all;
}

/// Stages in one thread that hand entries and gradients to each other directly.
class ListedStages {
 public:
  ListedStages(TrainingSchedule schedule, const ClusterCase& given)
      : batches_(given.windows, given.micro_batches), stages_(given.stages) {
    for (std::uint64_t k = 0; k < given.stages; ++k) {
      stages_[k].backend = given.make_backend(StageIndex{k}, account_);
      stages_[k].steps = whole_list(schedule, k, given, batches_);
    }
  }

  std::vector<StageState> train() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t k = 0; k < stages_.size(); ++k) {
        while (stages_[k].done < stages_[k].steps.size() && carry_out(k, stages_[k].steps[stages_[k].done])) {
          ++stages_[k].done;
          moved = true;
        }
      }
    }
    std::vector<StageState> states;
    for (const Stage& stage : stages_) {
      REQUIRE(stage.done == stage.steps.size());
      states.push_back(stage.backend->state());
    }
    return states;
  }

 private:
  struct Stage {
    std::unique_ptr<StageBackend> backend;
    std::vector<ScheduledStep> steps;
    std::size_t done = 0;
    std::map<BatchPosition, at::Tensor> entries;
    std::map<BatchPosition, at::Tensor> gradients;
  };

  bool carry_out(std::size_t k, const ScheduledStep& step) {
    Stage& stage = stages_[k];
    const BatchPosition& position = step.position;
    const bool last = k + 1 == stages_.size();
    if (step.kind == ScheduledStep::Kind::forward) {
      Entry entry = batches_.make(position);
      if (k > 0 && !stage.entries.contains(position)) return false;
      if (k > 0) entry.payload = stage.entries.at(position);
      at::Tensor hidden = stage.backend->begin(entry);
      if (!last) stages_[k + 1].entries[position] = std::move(hidden);
    } else if (step.kind == ScheduledStep::Kind::backward) {
      if (!last && !stage.gradients.contains(position)) return false;
      BackwardResult result =
          stage.backend->backpropagate(position, last ? at::Tensor() : stage.gradients.at(position));
      if (k > 0) stages_[k - 1].gradients[position] = std::move(result.input_gradient);
    } else {
      stage.backend->step(position.window);
    }
    return true;
  }

  CountingBatches batches_;
  MemoryAccount account_;
  std::vector<Stage> stages_;
};

/// Forwards and backwards of a stage as the trace has them: "F1.0 B1.0" for window 1, micro-batch 0.
std::string traced(const Heard& heard, std::uint64_t stage) {
  std::string text;
  for (const TraceSpan& span : heard.spans) {
    if (span.stage.value != stage) continue;
    if (span.kind == TraceSpan::Kind::forward) text += " F" + to_string(span.position);
    if (span.kind == TraceSpan::Kind::backward) text += " B" + to_string(span.position);
  }
  return text;
}

std::string listed(const std::vector<ScheduledStep>& steps) {
  std::string text;
  for (const ScheduledStep& step : steps) {
    if (step.kind == ScheduledStep::Kind::forward) text += " F" + to_string(step.position);
    if (step.kind == ScheduledStep::Kind::backward) text += " B" + to_string(step.position);
  }
  return text;
}

}  // namespace

TEST_CASE("a cluster works off each schedule's lists, to the same numbers as without actors", "[schedules]") {
  for (const TrainingSchedule schedule : across_stages) {
    for (const std::uint64_t stages : {1U, 2U, 5U}) {
      for (const std::uint64_t depth : {1U, 4U}) {
        INFO(to_string(schedule) << ", " << stages << " stages, depth " << depth);
        ClusterCase given = case_of(schedule);
        given.stages = stages;
        given.plan.depth = depth;
        const TemporaryFolder folder;
        const ClusterResult result = run_cluster(given, folder);
        REQUIRE(result.outcome.kind == Kind::finished);
        const std::vector<StageState> expected = ListedStages(schedule, given).train();
        const CountingBatches batches(given.windows, given.micro_batches);
        for (std::uint64_t k = 0; k < stages; ++k) {
          CHECK(same_state(result.outcome.stages[k].state, expected[k]));
          CHECK(traced(result.heard, k) == listed(whole_list(schedule, k, given, batches)));
        }
        CHECK(result.heard.reports.size() == stages * given.windows);
        for (const WindowReport& report : result.heard.reports) {
          CHECK(std::isnan(report.loss.task_loss) == (report.stage.value + 1 < stages));
          CHECK(report.loss.examples == static_cast<std::int64_t>(batches.micro_batches(report.window)));
        }
      }
    }
  }
}

TEST_CASE("backpropagation in one stage is zerolock in one stage", "[schedules]") {
  ClusterCase given;
  given.stages = 1;
  const TemporaryFolder folders[2];
  given.plan.schedule = TrainingSchedule::bp;
  const ClusterResult bp = run_cluster(given, folders[0]);
  given.plan.schedule = TrainingSchedule::zerolock;
  const ClusterResult zerolock = run_cluster(given, folders[1]);
  REQUIRE(bp.outcome.kind == Kind::finished);
  CHECK(same_state(bp.outcome.stages[0].state, zerolock.outcome.stages[0].state));
}

TEST_CASE("a stage that fails ends a run whose gradients cross boundaries, and says why", "[schedules]") {
  for (const TrainingSchedule schedule : across_stages) {
    OneFault fault(FaultPoint::backward, StageIndex{1}, {WindowIndex{3}, 1});
    ClusterCase given = case_of(schedule);
    given.fault = fault.hook();
    const TemporaryFolder folder;
    const ClusterResult result = run_cluster(given, folder);
    CHECK(fault.hit());
    REQUIRE(result.outcome.kind == Kind::failed);
    CHECK_THAT(result.outcome.failure, Catch::Contains("stage 1 failed because an injected fault"));
    CHECK_THAT(result.outcome.failure, Catch::Contains("the schedule " + std::string(to_string(schedule)) +
                                                       " cannot restore one stage alone"));
    CHECK(result.heard.restarts.empty());
    CHECK(result.outcome.durable < WindowIndex{3});
  }
}

TEST_CASE("a run that is stopped ends all stages with one window, and flushed ones go on exactly",
          "[schedules]") {
  for (const TrainingSchedule schedule : across_stages) {
    INFO(to_string(schedule));
    ClusterCase given = case_of(schedule);
    given.windows = 40;
    const std::vector<StageState> expected = ListedStages(schedule, given).train();
    std::atomic<bool> stop{false};
    given.stop_requested = [&stop] { return stop.load(); };
    given.on_report = [&stop](const WindowReport&) { stop = true; };
    const TemporaryFolder first;
    const ClusterResult stopped = run_cluster(given, first);
    REQUIRE(stopped.outcome.kind == Kind::stopped);
    for (const StageOutcome& stage : stopped.outcome.stages) {
      CHECK(stage.state.window == stopped.outcome.durable);
    }
    if (!resumes_exactly(schedule)) continue;
    ClusterCase rest = case_of(schedule);
    rest.windows = given.windows;
    rest.plan.first_window = stopped.outcome.durable.next();
    for (const StageOutcome& stage : stopped.outcome.stages) rest.plan.resume_from.push_back(stage.state);
    const TemporaryFolder second;
    const ClusterResult resumed = run_cluster(rest, second);
    REQUIRE(resumed.outcome.kind == Kind::finished);
    for (std::uint64_t k = 0; k < given.stages; ++k) {
      CHECK(same_state(resumed.outcome.stages[k].state, expected[k]));
    }
  }
}

TEST_CASE("an output that no buffer has room for ends the run with a line that says so", "[schedules]") {
  ClusterCase given = case_of(TrainingSchedule::gpipe);
  given.plan.buffer_bytes_max = 70;  // entries have 3 to 5 rows of 16 bytes; token ids 8 bytes a row
  const TemporaryFolder folder;
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.kind == Kind::failed);
  CHECK(result.outcome.bad_input);
  CHECK_THAT(result.outcome.failure, Catch::Contains("has no room for the output of"));
}
