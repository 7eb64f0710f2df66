/// Calibration as window 0 of a run: what one thread computes, whatever fails, and never twice once it is
/// durable.

#include "tests/supervision/cluster_support.hpp"

#include <array>

#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using Kind = ClusterOutcome::Kind;

namespace {

constexpr std::uint64_t micro_batches = 3;

/// What the stages have done for their calibration, over all lives.
struct Counts {
  std::array<std::atomic<int>, 6> forwards{};
  std::array<std::atomic<int>, 6> fits{};
};

/// Counts, around a simulated backend.
class CountedBackend final : public StageBackend {
 public:
  CountedBackend(StageIndex stage, Counts& counts, std::unique_ptr<StageBackend> inner)
      : stage_(stage), counts_(counts), inner_(std::move(inner)) {}
  at::Tensor begin(const Entry& entry) override { return inner_->begin(entry); }
  LossReport finish(const BatchPosition& position) override { return inner_->finish(position); }
  StepReport step(WindowIndex window) override { return inner_->step(window); }
  [[nodiscard]] bool needs_calibration() const override { return inner_->needs_calibration(); }
  at::Tensor calibrate_begin(const Entry& entry) override {
    ++counts_.forwards.at(stage_.value);
    return inner_->calibrate_begin(entry);
  }
  [[nodiscard]] at::Tensor calibration_targets() const override { return inner_->calibration_targets(); }
  void calibrate_finish(const at::Tensor& targets) override {
    ++counts_.fits.at(stage_.value);
    inner_->calibrate_finish(targets);
  }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  StageIndex stage_;
  Counts& counts_;
  std::unique_ptr<StageBackend> inner_;
};

/// As the last stage would be if no row were supervised.
class TargetlessBackend final : public StageBackend {
 public:
  explicit TargetlessBackend(std::unique_ptr<StageBackend> inner) : inner_(std::move(inner)) {}
  at::Tensor begin(const Entry& entry) override { return inner_->begin(entry); }
  LossReport finish(const BatchPosition& position) override { return inner_->finish(position); }
  StepReport step(WindowIndex window) override { return inner_->step(window); }
  [[nodiscard]] bool needs_calibration() const override { return inner_->needs_calibration(); }
  at::Tensor calibrate_begin(const Entry& entry) override { return inner_->calibrate_begin(entry); }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  std::unique_ptr<StageBackend> inner_;
};

BackendFactory counted(Counts& counts, BackendFactory inner = calibrating) {
  return [&counts, inner = std::move(inner)](StageIndex stage, MemoryAccount& account) {
    return std::make_unique<CountedBackend>(stage, counts, inner(stage, account));
  };
}

ClusterCase calibrating_case(Counts& counts) {
  ClusterCase given;
  given.plan.calibrate = true;
  given.make_backend = counted(counts);
  return given;
}

void check_states(const ClusterOutcome& outcome, const std::vector<StageState>& expected) {
  REQUIRE(outcome.failure.empty());
  REQUIRE(outcome.stages.size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    INFO("stage " << k);
    CHECK(same_state(outcome.stages[k].state, expected[k]));
    CHECK(outcome.stages[k].duplicates_dropped == 0);
  }
}

void check_heard(const ClusterResult& result, std::uint64_t stages) {
  std::vector<StageIndex> calibrated = result.heard.calibrated;
  std::sort(calibrated.begin(), calibrated.end());
  REQUIRE(calibrated.size() == stages);  // none twice
  for (std::uint64_t k = 0; k < stages; ++k) CHECK(calibrated[k] == StageIndex{k});
}

/// One fault in a run of three stages. `again`: the failed stage has to be fitted a second time.
void check_fault(FaultPoint point, std::uint64_t failed, const BatchPosition& position, bool again,
                 const std::vector<StageState>& expected) {
  INFO(to_string(point) << ", stage " << failed << ", " << to_string(position));
  const TemporaryFolder folder;
  OneFault fault(point, StageIndex{failed}, position);
  Counts counts;
  ClusterCase given = calibrating_case(counts);
  given.fault = fault.hook();
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(fault.hit());
  check_states(result.outcome, expected);
  check_heard(result, 3);
  REQUIRE(result.heard.restarts.size() == 1);
  const std::string from = position.window.value == 0
                               ? " restarted its calibration (incarnation 2): an injected"
                               : " restarted from window 0 (incarnation 2): an injected";
  CHECK_THAT(result.heard.restarts.front(), Catch::StartsWith("stage " + std::to_string(failed) + from));
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(result.outcome.stages[k].incarnation == Incarnation{failed == k ? 2U : 1U});
    CHECK(counts.fits.at(k) == (again && failed == k ? 2 : 1));
    if (k != failed) CHECK(counts.forwards.at(k) == micro_batches);
  }
  CHECK(result.heard.reports.size() == 12);
}

}  // namespace

TEST_CASE("stages as actors are calibrated as one thread does it, and then train", "[calibration]") {
  for (const std::uint64_t stages : {1, 2, 3, 6}) {
    const auto expected = train_in_sequence(stages, 4, micro_batches, 4, calibrating);
    CHECK_FALSE(same_state(expected.front(), train_in_sequence(stages, 4, micro_batches, 4).front()));
    for (std::uint64_t repetition = 0; repetition < 6; ++repetition) {
      INFO(stages << " stages");
      const TemporaryFolder folder;
      Counts counts;
      ClusterCase given = calibrating_case(counts);
      given.stages = stages;
      given.plan.depth = 1 + repetition % 3;
      given.plan.checkpoint_every = 1 + repetition % 2;
      const ClusterResult result = run_cluster(given, folder);
      check_states(result.outcome, expected);
      check_heard(result, stages);
      CHECK(result.heard.restarts.empty());
      CHECK(result.heard.reports.size() == stages * 4);
      std::size_t spans = 0;
      for (const TraceSpan& span : result.heard.spans) spans += span.kind == TraceSpan::Kind::calibrate;
      CHECK(spans == stages * (micro_batches + 1));
      for (std::size_t k = 0; k < stages; ++k) {
        CHECK(counts.forwards.at(k) == micro_batches);
        CHECK(counts.fits.at(k) == 1);
      }
    }
  }
}

TEST_CASE("stages that need no calibration take part in that of the others", "[calibration]") {
  for (const std::uint64_t without : {0, 2}) {
    INFO("stage " << without << " needs none");
    const BackendFactory mixed = [without](StageIndex stage, MemoryAccount& account) {
      return stage.value == without ? simulated(stage, account) : calibrating(stage, account);
    };
    const TemporaryFolder folder;
    Counts counts;
    ClusterCase given = calibrating_case(counts);
    given.make_backend = counted(counts, mixed);
    const ClusterResult result = run_cluster(given, folder);
    check_states(result.outcome, train_in_sequence(3, 4, micro_batches, 4, mixed));
    check_heard(result, 3);
  }
}

TEST_CASE("a run without calibration leaves window 0 alone, and a backend that needs it says so",
          "[calibration]") {
  Counts counts;
  ClusterCase given;
  given.make_backend = counted(counts, simulated);
  {
    const TemporaryFolder folder;
    const ClusterResult result = run_cluster(given, folder);
    check_states(result.outcome, train_in_sequence(3, 4, micro_batches, 4));
    CHECK(result.heard.calibrated.empty());
    for (std::size_t k = 0; k < 3; ++k) CHECK(counts.forwards.at(k) == 0);
  }
  const TemporaryFolder folder;
  given.make_backend = calibrating;
  given.plan.restarts_max = 0;
  const ClusterResult result = run_cluster(given, folder);
  CHECK(result.outcome.kind == Kind::failed);
  CHECK_THAT(result.outcome.failure, Catch::Contains("the plan knows whether the stages are calibrated"));
}

TEST_CASE("a worker that throws anywhere in its calibration begins it again, alone and to the same bits",
          "[calibration][fault]") {
  const auto expected = train_in_sequence(3, 4, micro_batches, 4, calibrating);
  for (std::uint64_t k = 0; k < 3; ++k) {
    for (const FaultPoint point : {FaultPoint::entry_received, FaultPoint::forward_begin,
                                   FaultPoint::forward_end, FaultPoint::entry_sent}) {
      for (std::uint64_t i = 0; i < micro_batches; ++i)
        check_fault(point, k, {WindowIndex{0}, i}, false, expected);
    }
    check_fault(FaultPoint::fit_begin, k, {WindowIndex{0}, micro_batches - 1}, false, expected);
    check_fault(FaultPoint::fit_end, k, {WindowIndex{0}, micro_batches - 1}, true, expected);
  }
  for (const FaultPoint point : {FaultPoint::targets_made, FaultPoint::targets_sent}) {
    check_fault(point, 2, {WindowIndex{0}, micro_batches - 1}, false, expected);
  }
}

TEST_CASE("a keeper that throws while it saves the calibration changes no bit and no other stage",
          "[calibration][fault]") {
  const auto expected = train_in_sequence(3, 4, micro_batches, 4, calibrating);
  for (std::uint64_t k = 0; k < 3; ++k) {
    for (const FaultPoint point : {FaultPoint::checkpoint_temp, FaultPoint::checkpoint_rename,
                                   FaultPoint::manifest, FaultPoint::durable_ack}) {
      check_fault(point, k, {WindowIndex{0}, 0}, true, expected);
    }
  }
}

TEST_CASE("a worker that throws anywhere in the first window is not calibrated again",
          "[calibration][fault]") {
  const auto expected = train_in_sequence(3, 4, micro_batches, 4, calibrating);
  for (std::uint64_t k = 0; k < 3; ++k) {
    for (const FaultPoint point :
         {FaultPoint::forward_begin, FaultPoint::forward_end, FaultPoint::entry_sent, FaultPoint::backward}) {
      for (std::uint64_t i = 0; i < micro_batches; ++i)
        check_fault(point, k, {WindowIndex{1}, i}, false, expected);
    }
    // The first entry may be received before the calibration is over.
    for (std::uint64_t i = 1; i < micro_batches; ++i) {
      check_fault(FaultPoint::entry_received, k, {WindowIndex{1}, i}, false, expected);
    }
    check_fault(FaultPoint::step, k, {WindowIndex{1}, micro_batches - 1}, false, expected);
  }
}

TEST_CASE("several stages that fail again and again in their calibration still come to the same bits",
          "[calibration][fault]") {
  const auto expected = train_in_sequence(3, 4, micro_batches, 4, calibrating);
  for (int repetition = 0; repetition < 10; ++repetition) {
    const TemporaryFolder folder;
    std::array<std::atomic<int>, 3> left{2, 2, 2};
    Counts counts;
    ClusterCase given = calibrating_case(counts);
    given.fault = [&](FaultPoint point, StageIndex stage, Incarnation, const BatchPosition& position) {
      const FaultPoint at = stage.value == 2 ? FaultPoint::targets_sent : FaultPoint::fit_end;
      if (point != at || position.window.value != 0) return;
      if (left.at(stage.value).fetch_sub(1) > 0) throw std::runtime_error("an injected fault");
    };
    const ClusterResult result = run_cluster(given, folder);
    check_states(result.outcome, expected);
    CHECK(result.heard.restarts.size() == 6);
  }
}

TEST_CASE("a run that is resumed has its calibration in its states", "[calibration]") {
  for (const bool before_start : {true, false}) {
    const TemporaryFolder folder;
    std::atomic<bool> stop{before_start};
    Counts counts;
    ClusterCase given = calibrating_case(counts);
    given.windows = 40;
    given.on_report = [&](const WindowReport& report) { stop = stop || report.window.value == 2; };
    given.stop_requested = [&] { return stop.load(); };
    const ClusterResult stopped = run_cluster(given, folder);
    REQUIRE(stopped.outcome.kind == Kind::stopped);
    const WindowIndex at = stopped.outcome.durable;
    if (before_start) CHECK(at == WindowIndex{0});
    check_states(stopped.outcome, train_in_sequence(3, at.value, micro_batches, 40, calibrating));

    Counts none;
    ClusterCase again = calibrating_case(none);
    again.windows = 40;
    again.plan.first_window = at.next();
    for (const StageOutcome& stage : stopped.outcome.stages) again.plan.resume_from.push_back(stage.state);
    const ClusterResult resumed = run_cluster(again, folder);
    check_states(resumed.outcome, train_in_sequence(3, 40, micro_batches, 40, calibrating));
    CHECK(resumed.heard.calibrated.empty());
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(counts.fits.at(k) == 1);
      CHECK(none.forwards.at(k) == 0);
      CHECK(none.fits.at(k) == 0);
    }
  }
}

TEST_CASE("a calibration that cannot be held or has nothing to fit to ends the run with words",
          "[calibration]") {
  Counts counts;
  ClusterCase given = calibrating_case(counts);
  {
    const TemporaryFolder folder;
    given.plan.buffer_bytes_max = 5 * simulated_width * 4;
    const ClusterResult result = run_cluster(given, folder);
    REQUIRE(result.outcome.kind == Kind::failed);
    CHECK_THAT(result.outcome.failure, Catch::Contains("allow more bytes"));
  }
  const TemporaryFolder folder;
  given.plan.buffer_bytes_max = ClusterPlan{}.buffer_bytes_max;
  given.make_backend = [](StageIndex stage, MemoryAccount& account) {
    return std::make_unique<TargetlessBackend>(calibrating(stage, account));
  };
  const ClusterResult result = run_cluster(given, folder);
  REQUIRE(result.outcome.kind == Kind::failed);
  CHECK(result.outcome.bad_input);
  CHECK(result.outcome.failure == "calibration data: has no supervised row to fit to");
  CHECK(result.heard.restarts.empty());
}
