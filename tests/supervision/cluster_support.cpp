#include "tests/supervision/cluster_support.hpp"

#include "tensors/training/calibration.hpp"

namespace zerolock::test {

Entry CountingBatches::make(const BatchPosition& position) const {
  auto layout = std::make_shared<MicroBatchLayout>();
  const auto rows = static_cast<std::int64_t>(3 + (position.window.value + position.micro_batch) % 3);
  layout->sequence_offsets = {0, rows};
  layout->supervised_rows = {rows - 1};
  layout->targets = {1};
  Entry entry;
  entry.position = position;
  entry.layout = layout;
  const auto first = static_cast<std::int64_t>(position.window.value * 100 + position.micro_batch * 10);
  entry.payload = at::arange(first, first + rows, at::kLong);
  return entry;
}

std::unique_ptr<StageBackend> simulated(StageIndex stage, MemoryAccount&) {
  return make_simulated_backend(stage, simulated_width);
}

std::unique_ptr<StageBackend> calibrating(StageIndex stage, MemoryAccount&) {
  return make_simulated_backend(stage, simulated_width, {}, true);
}

ClusterResult run_cluster(const ClusterCase& given, const TemporaryFolder& folder) {
  ClusterResult result;
  ClusterPlan plan = given.plan;
  plan.run_id = "test";
  plan.stages = given.stages;
  plan.last_window = WindowIndex{given.windows};
  plan.checkpoints = folder.path();
  ClusterObserver observer;
  observer.window_committed = [&](const WindowReport& report) {
    result.heard.reports.push_back(report);
    if (given.on_report) given.on_report(report);
  };
  observer.calibrated = [&](StageIndex stage) { result.heard.calibrated.push_back(stage); };
  observer.span = [&](const TraceSpan& span) { result.heard.spans.push_back(span); };
  observer.restarted = [&](StageIndex, Incarnation, const std::string& what) {
    result.heard.restarts.push_back(what);
  };
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  for (std::uint64_t k = 0; k < given.stages; ++k) accounts.push_back(std::make_unique<MemoryAccount>());
  const auto batches = std::make_shared<CountingBatches>(given.windows, given.micro_batches);
  result.outcome = run_local_cluster(
      plan, batches, given.make_backend ? given.make_backend : simulated, accounts,
      given.stop_requested ? given.stop_requested : [] { return false; }, observer, given.fault);
  return result;
}

std::vector<StageState> train_in_sequence(std::uint64_t stages, std::uint64_t windows,
                                          std::uint64_t micro_batches, std::uint64_t plan_windows,
                                          const BackendFactory& make_backend) {
  const CountingBatches batches(plan_windows, micro_batches);
  MemoryAccount account;
  std::vector<std::unique_ptr<StageBackend>> backends;
  std::vector<StageBackend*> in_order;
  for (std::uint64_t k = 0; k < stages; ++k) {
    backends.push_back(make_backend(StageIndex{k}, account));
    in_order.push_back(backends.back().get());
  }
  std::vector<Entry> rows;
  for (std::uint64_t i = 0; i < batches.micro_batches(WindowIndex{0}); ++i) {
    rows.push_back(batches.make({WindowIndex{0}, i}));
  }
  calibrate(in_order, rows);
  for (WindowIndex window{1}; window.value <= windows; window = window.next()) {
    for (std::uint64_t i = 0; i < batches.micro_batches(window); ++i) {
      Entry entry = batches.make({window, i});
      for (const auto& backend : backends) {
        entry.payload = backend->begin(entry);
        backend->finish(entry.position);
      }
    }
    for (const auto& backend : backends) backend->step(window);
  }
  std::vector<StageState> states;
  states.reserve(backends.size());
  for (const auto& backend : backends) states.push_back(backend->state());
  return states;
}

bool same_state(const StageState& a, const StageState& b) {
  if (a.window != b.window || a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end() || !tensor.equal(other->second)) return false;
  }
  return true;
}

}  // namespace zerolock::test
