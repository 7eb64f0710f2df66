/// Runs over imitated links: the same numbers, no entry earlier than the link's formula allows, and who
/// shares a rate with whom.

#include "supervision/imitated_cluster.hpp"
#include "tests/supervision/cluster_support.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t stages = 3;
constexpr std::uint64_t windows = 3;
constexpr std::uint64_t micro_batches = 2;

/// 2 ms and a megabyte a second.
const LinkProfile slow{milliseconds(2), 1'000'000};

struct Imitated {
  ClusterOutcome outcome;
  std::vector<TraceSpan> spans;
};

Imitated run(TrainingSchedule schedule, const ImitatedNetwork& network, const FaultHook& fault = {}) {
  const TemporaryFolder folder;
  ClusterPlan plan;
  plan.run_id = "imitated";
  plan.stages = stages;
  plan.schedule = schedule;
  plan.last_window = WindowIndex{windows};
  plan.checkpoints = folder.path();
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  for (std::uint64_t k = 0; k < stages; ++k) accounts.push_back(std::make_unique<MemoryAccount>());
  const BackendFactory make_backend = [reach = gradient_reach(schedule)](StageIndex stage, MemoryAccount&) {
    return make_simulated_backend(stage, simulated_width, {}, false, reach);
  };
  Imitated result;
  ClusterObserver observer;
  observer.span = [&](const TraceSpan& span) { result.spans.push_back(span); };
  result.outcome = run_imitated_cluster(
      network, plan, std::make_shared<CountingBatches>(windows, micro_batches), make_backend, accounts,
      [] { return false; }, observer, fault);
  return result;
}

const TraceSpan& span_of(const Imitated& result, TraceSpan::Kind kind, std::uint64_t stage,
                         const BatchPosition& position) {
  for (const TraceSpan& span : result.spans) {
    if (span.kind == kind && span.stage.value == stage && span.position == position) return span;
  }
  throw std::logic_error("no such span");
}

}  // namespace

TEST_CASE("a slow link delays entries as its formula says, and changes no number") {
  ImitatedNetwork network{slow, LinkSharing::way, std::uint64_t{5000}};  // 5 ms each
  const Imitated result = run(TrainingSchedule::zerolock, network);
  REQUIRE(result.outcome.kind == ClusterOutcome::Kind::finished);
  const auto expected = train_in_sequence(stages, windows, micro_batches, windows);
  for (std::uint64_t k = 0; k < stages; ++k) CHECK(same_state(result.outcome.stages[k].state, expected[k]));
  const BatchPosition second{WindowIndex{1}, 1};
  const auto sent = span_of(result, TraceSpan::Kind::forward, 0, {WindowIndex{1}, 0}).end;
  const auto arrived = span_of(result, TraceSpan::Kind::forward, 1, second).begin;
  CHECK(arrived - sent >= milliseconds(2 + 2 * 5));  // behind the first one
}

TEST_CASE("gradients come back over the link") {
  ImitatedNetwork network{slow, LinkSharing::both, std::uint64_t{5000}};
  const Imitated result = run(TrainingSchedule::one_f_one_b, network);
  REQUIRE(result.outcome.kind == ClusterOutcome::Kind::finished);
  const BatchPosition first{WindowIndex{1}, 0};
  const auto made = span_of(result, TraceSpan::Kind::backward, 2, first).end;
  const auto used = span_of(result, TraceSpan::Kind::backward, 1, first).begin;
  CHECK(used - made >= milliseconds(2 + 5));
  const Imitated direct = run(TrainingSchedule::one_f_one_b, {});
  for (std::uint64_t k = 0; k < stages; ++k) {
    CHECK(same_state(result.outcome.stages[k].state, direct.outcome.stages[k].state));
  }
}

TEST_CASE("a stage that restarts goes on over its imitated link") {
  OneFault fault(FaultPoint::backward, StageIndex{1}, {WindowIndex{2}, 0});
  const Imitated result =
      run(TrainingSchedule::zerolock, {slow, LinkSharing::way, std::nullopt}, fault.hook());
  REQUIRE(fault.hit());
  REQUIRE(result.outcome.kind == ClusterOutcome::Kind::finished);
  CHECK(result.outcome.stages[1].incarnation == Incarnation{2});
  const auto expected = train_in_sequence(stages, windows, micro_batches, windows);
  for (std::uint64_t k = 0; k < stages; ++k) CHECK(same_state(result.outcome.stages[k].state, expected[k]));
}

TEST_CASE("what shares a rate waits for each other") {
  const auto start = LinkQueue::TimePoint{} + std::chrono::seconds(1);
  const auto later = [&](LinkQueue& queue) {
    return std::chrono::duration_cast<milliseconds>(queue.transmit(start, 5000) - start);
  };
  {
    const auto queues = boundary_queues(slow, LinkSharing::way, 3);
    REQUIRE(queues.size() == 2);
    for (const BoundaryQueues& boundary : queues) {
      CHECK(later(*boundary.hidden_states) == milliseconds(7));
      CHECK(later(*boundary.gradients) == milliseconds(7));
    }
    CHECK(later(*queues[0].hidden_states) == milliseconds(12));
  }
  {
    const auto queues = boundary_queues(slow, LinkSharing::both, 3);
    CHECK(later(*queues[0].hidden_states) == milliseconds(7));
    CHECK(later(*queues[0].gradients) == milliseconds(12));
    CHECK(later(*queues[1].hidden_states) == milliseconds(7));
  }
  {
    // The middle stage sends gradients across the first boundary and hidden states across the second.
    const auto queues = boundary_queues(slow, LinkSharing::stage, 3);
    CHECK(later(*queues[0].hidden_states) == milliseconds(7));
    CHECK(later(*queues[0].gradients) == milliseconds(7));
    CHECK(later(*queues[1].hidden_states) == milliseconds(12));
    CHECK(later(*queues[1].gradients) == milliseconds(7));
  }
}
