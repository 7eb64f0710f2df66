#include "apps/bench/whole_replay_run.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "supervision/local_cluster.hpp"
#include "tensors/base/error.hpp"
#include "transport/entry_frame.hpp"

namespace zerolock {

namespace {

/// What stages take from one another, told by their threads.
class CrossingCount {
 public:
  void add(std::uint64_t payload_bytes, std::uint64_t framing_bytes) {
    const std::lock_guard lock(mutex_);
    crossings_.add(payload_bytes, payload_bytes + framing_bytes);
  }
  [[nodiscard]] Crossings crossings() const {
    const std::lock_guard lock(mutex_);
    return crossings_;
  }

 private:
  mutable std::mutex mutex_;
  Crossings crossings_;
};

class CountedBackend final : public StageBackend {
 public:
  CountedBackend(std::unique_ptr<StageBackend> inner, StageIndex stage, std::shared_ptr<CrossingCount> count)
      : inner_(std::move(inner)), stage_(stage), count_(std::move(count)) {}

  at::Tensor begin(const Entry& entry) override {
    at::Tensor hidden = inner_->begin(entry);
    const Entry sent{entry.position, {}, entry.layout, hidden};
    framing_bytes_ = entry_frame(0, sent, WireType::fp32).wire_bytes() - sent.bytes();
    if (stage_.value > 0) count_->add(entry.bytes(), framing_bytes_);
    return hidden;
  }
  LossReport finish(const BatchPosition& position) override { return inner_->finish(position); }
  BackwardResult backpropagate(const BatchPosition& position, at::Tensor output_gradient) override {
    if (output_gradient.defined()) count_->add(output_gradient.nbytes(), framing_bytes_);
    return inner_->backpropagate(position, std::move(output_gradient));
  }
  StepReport step(WindowIndex window) override { return inner_->step(window); }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  std::unique_ptr<StageBackend> inner_;
  StageIndex stage_;
  std::shared_ptr<CrossingCount> count_;
  std::uint64_t framing_bytes_ = 0;  // of a micro-batch's hidden state; a gradient has the same shape
};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Times from the first forward's begin to the end of the last missed window's steps.
void measure_times(const RecoveryShape& shape, RecoveryMeasure& measure) {
  auto begin = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds end{0};
  std::chrono::nanoseconds last_stage_end{0};
  for (const TraceSpan& span : measure.spans) {
    if (span.kind == TraceSpan::Kind::forward) begin = std::min(begin, span.begin);
    if (span.kind != TraceSpan::Kind::step || span.position.window != shape.last_missed()) continue;
    end = std::max(end, span.end);
    if (span.stage.value + 1 == shape.stages) last_stage_end = span.end;
  }
  measure.seconds = seconds(end - begin);
  measure.seconds_to_last_stage = seconds(last_stage_end - begin);
}

}  // namespace

RecoveryMeasure measure_whole_replay(const RecoveryShape& shape, WholeReplay replay,
                                     const std::filesystem::path& folder) {
  ClusterPlan plan = shape.plan();
  plan.checkpoints = folder / "checkpoints";
  plan.first_window = shape.first_missed();
  plan.last_window = shape.last_missed();
  if (replay == WholeReplay::one_f_one_b) plan.schedule = TrainingSchedule::one_f_one_b;
  const auto count = std::make_shared<CrossingCount>();
  const BackendFactory make_backend = [&shape, count, reach = gradient_reach(plan.schedule)](
                                          StageIndex stage, MemoryAccount&) -> std::unique_ptr<StageBackend> {
    return std::make_unique<CountedBackend>(make_simulated_backend(stage, shape.width, shape.compute, reach),
                                            stage, count);
  };
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  for (std::uint64_t stage = 0; stage < shape.stages; ++stage) {
    accounts.push_back(std::make_unique<MemoryAccount>());
    plan.resume_from.push_back(
        make_simulated_backend(StageIndex{stage}, shape.width, shape.compute)->state());
    plan.resume_from.back().window = WindowIndex{shape.windows_before};
  }
  RecoveryMeasure measure;
  ClusterObserver observer;
  observer.span = [&measure](const TraceSpan& span) { measure.spans.push_back(span); };
  const ClusterOutcome outcome = run_local_cluster(
      plan, shape.batches(), make_backend, accounts, [] { return false; }, observer);
  if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
  measure_times(shape, measure);
  measure.moved = count->crossings();
  return measure;
}

}  // namespace zerolock
