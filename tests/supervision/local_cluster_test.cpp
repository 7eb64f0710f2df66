#include "tests/supervision/cluster_support.hpp"

#include <condition_variable>
#include <ctime>
#include <set>

#include "actors/checkpoint_files.hpp"
#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using Kind = ClusterOutcome::Kind;

namespace {

/// Counts, around the simulated backend, what is between the end of one stage's forward and the start of the
/// next's.
class BoundaryGauge {
 public:
  explicit BoundaryGauge(std::uint64_t stages) : made_(stages), begun_(stages) {}
  void begins(StageIndex stage) {
    const std::lock_guard lock(mutex_);
    ++begun_[stage.value];
  }
  void made(StageIndex stage) {
    const std::lock_guard lock(mutex_);
    ++made_[stage.value];
    if (stage.value + 1 < begun_.size()) {
      most_ = std::max(most_, made_[stage.value] - begun_[stage.value + 1]);
    }
  }
  [[nodiscard]] std::int64_t most_in_flight() const { return most_; }

 private:
  std::mutex mutex_;
  std::vector<std::int64_t> made_;
  std::vector<std::int64_t> begun_;
  std::int64_t most_ = 0;
};

class GaugedBackend final : public StageBackend {
 public:
  GaugedBackend(StageIndex stage, BoundaryGauge& gauge)
      : stage_(stage),
        gauge_(gauge),
        inner_(
            make_simulated_backend(stage, simulated_width,
                                   SimulatedDurations{std::chrono::nanoseconds{0},
                                                      std::chrono::microseconds{stage.value == 2 ? 300 : 0},
                                                      std::chrono::nanoseconds{0}})) {}
  at::Tensor begin(const Entry& entry) override {
    gauge_.begins(stage_);
    at::Tensor hidden = inner_->begin(entry);
    gauge_.made(stage_);
    return hidden;
  }
  LossReport finish(const BatchPosition& position) override { return inner_->finish(position); }
  StepReport step(WindowIndex window) override { return inner_->step(window); }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  StageIndex stage_;
  BoundaryGauge& gauge_;
  std::unique_ptr<StageBackend> inner_;
};

/// Which forwards have begun.
class ForwardSignal {
 public:
  void begins(StageIndex stage, const BatchPosition& position) {
    const std::lock_guard lock(mutex_);
    begun_.insert({stage, position});
    changed_.notify_all();
  }
  /// Ends a wait that would never end with an exception; measures nothing.
  void await(StageIndex stage, const BatchPosition& position) {
    std::unique_lock lock(mutex_);
    const auto begun = [&] { return begun_.contains({stage, position}); };
    if (!changed_.wait_for(lock, std::chrono::seconds(60), begun))
      throw RunError("the next stage has not begun");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<StageIndex, BatchPosition>> begun_;
};

/// Its backward does not end before the next stage has begun the same micro-batch.
class WaitingBackend final : public StageBackend {
 public:
  WaitingBackend(StageIndex stage, ForwardSignal& signal)
      : stage_(stage), signal_(signal), inner_(make_simulated_backend(stage, simulated_width)) {}
  at::Tensor begin(const Entry& entry) override {
    signal_.begins(stage_, entry.position);
    return inner_->begin(entry);
  }
  LossReport finish(const BatchPosition& position) override {
    if (stage_.value < 2) signal_.await(stage_.next(), position);
    return inner_->finish(position);
  }
  StepReport step(WindowIndex window) override { return inner_->step(window); }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  StageIndex stage_;
  ForwardSignal& signal_;
  std::unique_ptr<StageBackend> inner_;
};

/// Trains like the simulated backend until a position, where its loss is not finite.
class DivergingBackend final : public StageBackend {
 public:
  DivergingBackend(StageIndex stage, BatchPosition at)
      : stage_(stage), at_(at), inner_(make_simulated_backend(stage, simulated_width)) {}
  at::Tensor begin(const Entry& entry) override { return inner_->begin(entry); }
  LossReport finish(const BatchPosition& position) override {
    if (stage_.value == 1 && position == at_)
      throw RunError(to_string(position) + ": the loss is not finite");
    return inner_->finish(position);
  }
  StepReport step(WindowIndex window) override { return inner_->step(window); }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  StageIndex stage_;
  BatchPosition at_;
  std::unique_ptr<StageBackend> inner_;
};

void check_states(const ClusterOutcome& outcome, const std::vector<StageState>& expected) {
  REQUIRE(outcome.stages.size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    INFO("stage " << k);
    CHECK(same_state(outcome.stages[k].state, expected[k]));
  }
}

}  // namespace

TEST_CASE("stages as actors train what one thread trains", "[cluster]") {
  for (const std::uint64_t stages : {1, 2, 3, 6}) {
    for (const std::uint64_t every : {1, 3}) {
      for (int repetition = 0; repetition < 5; ++repetition) {
        INFO(stages << " stages, a checkpoint every " << every << " windows");
        const TemporaryFolder folder;
        ClusterCase given;
        given.stages = stages;
        given.windows = 5;
        given.plan.checkpoint_every = every;
        given.plan.depth = 1 + static_cast<std::uint64_t>(repetition) % 3;
        const ClusterResult result = run_cluster(given, folder);
        REQUIRE(result.outcome.failure.empty());
        REQUIRE(result.outcome.kind == Kind::finished);
        CHECK(result.outcome.durable == WindowIndex{5});
        check_states(result.outcome, train_in_sequence(stages, 5, 3, 5));
        CHECK(result.heard.reports.size() == stages * 5);
        CHECK(result.heard.restarts.empty());
        for (const StageOutcome& stage : result.outcome.stages) {
          CHECK(stage.incarnation == Incarnation{1});
          CHECK(stage.duplicates_dropped == 0);
        }
      }
    }
  }
}

TEST_CASE("reports carry the mean of the window", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.windows = 2;
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.kind == Kind::finished);
  for (const WindowReport& report : result.heard.reports) {
    const std::int64_t micro_batches = report.window.value == 2 ? 2 : 3;
    CHECK(report.loss.examples == micro_batches);
    CHECK(report.step.micro_batches == micro_batches);
    CHECK(report.loss.task_loss == Approx(1.0 / (1.0 + static_cast<double>(report.window.value))));
  }
}

TEST_CASE("no more than depth entries are between two stages", "[cluster]") {
  for (const std::uint64_t depth : {1, 2, 4}) {
    const TemporaryFolder folder;
    BoundaryGauge gauge(3);
    ClusterCase given;
    given.windows = 6;
    given.micro_batches = 8;
    given.plan.depth = depth;
    given.make_backend = [&](StageIndex stage, MemoryAccount&) {
      return std::make_unique<GaugedBackend>(stage, gauge);
    };
    const ClusterResult result = run_cluster(given, folder);
    REQUIRE(result.outcome.kind == Kind::finished);
    // The gauge also counts the entry that a worker has taken and not begun yet: it has left the boundary.
    CHECK(gauge.most_in_flight() <= static_cast<std::int64_t>(depth) + 1);
    CHECK(gauge.most_in_flight() >= static_cast<std::int64_t>(depth));
    check_states(result.outcome, train_in_sequence(3, 6, 8, 6));
  }
}

TEST_CASE("a small byte bound slows a run and does not change it", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.windows = 8;
  given.plan.buffer_bytes_max = 5 * simulated_width * 4 * 3;  // one window, just
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.failure.empty());
  check_states(result.outcome, train_in_sequence(3, 8, 3, 8));
}

TEST_CASE("a byte bound too small for one window ends the run with words, not in a hang", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.plan.buffer_bytes_max = 5 * simulated_width * 4;
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.kind == Kind::failed);
  CHECK_THAT(result.outcome.failure, Catch::Contains("allow more bytes"));
}

TEST_CASE("the hidden state leaves before the backward begins", "[cluster]") {
  const TemporaryFolder folder;
  ForwardSignal signal;
  ClusterCase given;
  given.make_backend = [&](StageIndex stage, MemoryAccount&) {
    return std::make_unique<WaitingBackend>(stage, signal);
  };
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.failure.empty());
  std::map<std::pair<StageIndex, BatchPosition>, TraceSpan> forwards;
  std::map<std::pair<StageIndex, BatchPosition>, TraceSpan> backwards;
  for (const TraceSpan& span : result.heard.spans) {
    CHECK(span.begin <= span.end);
    if (span.kind == TraceSpan::Kind::forward) forwards[{span.stage, span.position}] = span;
    if (span.kind == TraceSpan::Kind::backward) backwards[{span.stage, span.position}] = span;
  }
  REQUIRE(backwards.size() == 3 * 11);
  for (const auto& [place, backward] : backwards) {
    const auto [stage, position] = place;
    CHECK(forwards.at(place).end <= backward.begin);
    if (stage.value < 2) CHECK(forwards.at({stage.next(), position}).begin < backward.end);
  }
}

TEST_CASE("a stop ends every stage with the same durable window, and the run goes on to the same bits",
          "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.windows = 40;
  given.plan.checkpoint_every = 4;
  std::atomic<bool> stop{false};
  given.on_report = [&](const WindowReport& report) { stop = stop || report.window.value == 5; };
  given.stop_requested = [&] { return stop.load(); };
  const ClusterResult stopped = run_cluster(given, folder);
  REQUIRE(stopped.outcome.failure.empty());
  REQUIRE(stopped.outcome.kind == Kind::stopped);
  const WindowIndex at = stopped.outcome.durable;
  CHECK(at >= WindowIndex{5});
  CHECK(at < WindowIndex{20});
  check_states(stopped.outcome, train_in_sequence(3, at.value, 3, 40));

  ClusterCase again;
  again.windows = 40;
  again.plan.first_window = at.next();
  for (const StageOutcome& stage : stopped.outcome.stages) again.plan.resume_from.push_back(stage.state);
  const ClusterResult resumed = run_cluster(again, folder);
  REQUIRE(resumed.outcome.kind == Kind::finished);
  check_states(resumed.outcome, train_in_sequence(3, 40, 3, 40));
}

TEST_CASE("a stop before the start and a run with nothing left both end", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.stop_requested = [] { return true; };
  const ClusterResult stopped = run_cluster(given, folder);
  CHECK(stopped.outcome.kind == Kind::stopped);
  CHECK(stopped.outcome.durable == WindowIndex{0});
  ClusterCase nothing;
  nothing.windows = 4;
  nothing.plan.first_window = WindowIndex{5};
  nothing.plan.resume_from = train_in_sequence(3, 4, 3, 4);
  const TemporaryFolder other;
  const ClusterResult empty = run_cluster(nothing, other);
  CHECK(empty.outcome.failure.empty());
  CHECK(empty.outcome.kind == Kind::finished);
  check_states(empty.outcome, nothing.plan.resume_from);
}

TEST_CASE("checkpoints from the line on and one older stay", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.windows = 9;
  REQUIRE(run_cluster(given, folder).outcome.kind == Kind::finished);
  for (std::uint64_t k = 0; k < 3; ++k) {
    const auto windows = checkpoint_windows(folder.path(), StageIndex{k});
    CHECK(windows.back() == WindowIndex{9});
    // The last move of the line may come after the keeper was told to go.
    CHECK(windows.size() >= 2);
    CHECK(windows.size() <= 6);
  }
}

TEST_CASE("a backend that cannot be made ends the run with its message", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.make_backend = [](StageIndex stage, MemoryAccount& account) -> std::unique_ptr<StageBackend> {
    if (stage.value == 1) throw InputError("config.json", "model_type is not supported");
    return simulated(stage, account);
  };
  const ClusterResult result = run_cluster(given, folder);
  CHECK(result.outcome.kind == Kind::failed);
  CHECK(result.outcome.bad_input);
  CHECK(result.outcome.failure == "config.json: model_type is not supported");
  CHECK(result.heard.restarts.empty());
}

TEST_CASE("a failure that always comes back ends in a chain of causes, and state is kept", "[cluster]") {
  const TemporaryFolder folder;
  ClusterCase given;
  given.plan.restarts_max = 2;
  given.make_backend = [](StageIndex stage, MemoryAccount&) {
    return std::make_unique<DivergingBackend>(stage, BatchPosition{WindowIndex{3}, 1});
  };
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.kind == Kind::failed);
  CHECK_FALSE(result.outcome.bad_input);
  CHECK(result.outcome.failure ==
        "executor local failed because stage 1 failed 3 times within 60 s, the last time because "
        "window 3, micro-batch 1: the loss is not finite");
  CHECK(result.heard.restarts.size() == 2);
  CHECK(result.outcome.durable == WindowIndex{2});
  const auto expected = train_in_sequence(3, 2, 3, 4);
  for (std::uint64_t k = 0; k < 3; ++k) {
    CHECK(same_state(read_checkpoint(folder.path(), StageIndex{k}, WindowIndex{2}), expected[k]));
  }
}

TEST_CASE("cost of the actor path for each micro-batch", "[.overhead]") {
  for (const std::uint64_t stages : {1, 3, 6}) {
    const TemporaryFolder folder;
    ClusterCase given;
    given.stages = stages;
    given.windows = 20;
    given.micro_batches = 500;
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t processor_begin = std::clock();
    REQUIRE(run_cluster(given, folder).outcome.kind == Kind::finished);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    const double processor_us = 1e6 * static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC;
    const double stage_micro_batches = 20.0 * 500.0 * static_cast<double>(stages);
    WARN(stages << " stages, for each stage and micro-batch: " << time.count() / stage_micro_batches
                << " us, " << processor_us / stage_micro_batches << " us of processor time");
  }
}
