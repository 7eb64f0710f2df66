#include "tensors/training/simulated_backend.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Clock = std::chrono::steady_clock;

/// Its one number is a running checksum in the order of training: x -> x * a + b modulo 2^52, so that it is
/// exact in fp64 and every input, and every change of order, changes it.
class SimulatedBackend final : public StageBackend {
 public:
  SimulatedBackend(StageIndex stage, std::int64_t width, const SimulatedCompute& compute, bool calibrates,
                   GradientReach reach)
      : stage_(stage),
        width_(width),
        durations_(compute.durations),
        state_bytes_(compute.state_bytes),
        calibrates_(calibrates),
        reach_(reach) {}

  at::Tensor begin(const Entry& entry) override {
    ZEROLOCK_INVARIANT(entry.layout != nullptr && entry.payload.size(0) == entry.layout->rows(),
                       to_string(entry.position));
    ZEROLOCK_INVARIANT(!open_.contains(entry.position), "a micro-batch begins once");
    ZEROLOCK_INVARIANT(!needs_calibration(), "a stage is calibrated before it trains");
    const auto begin = Clock::now();
    const at::Tensor received = entry.payload.to(at::kDouble).reshape({entry.payload.size(0), -1});
    // Depends on the weights of this window.
    const double weight = static_cast<double>(committed_checksum_ % 1000) / 1000.0;
    open_.emplace(entry.position, Open{entry.layout, received.sum().item<double>(), weight});
    at::Tensor sent = forward(received, weight);
    spend(durations_.forward, begin);
    return sent;
  }

  LossReport finish(const BatchPosition& position) override {
    ZEROLOCK_INVARIANT(reach_ == GradientReach::stage, "this stage's gradient is for the stage before, too");
    const auto begin = Clock::now();
    const Open open = close(position);
    const LossReport report = backward(position, open.content, *open.layout);
    spend(durations_.backward, begin);
    return report;
  }

  BackwardResult backpropagate(const BatchPosition& position, at::Tensor output_gradient) override {
    ZEROLOCK_INVARIANT(reach_ != GradientReach::stage, "this stage has a loss of its own");
    const auto begin = Clock::now();
    const Open open = close(position);
    const double gradient = output_gradient.defined() ? output_gradient.sum(at::kDouble).item<double>() : 1.0;
    BackwardResult result;
    result.report = backward(position, open.content + gradient, *open.layout);
    LossReport& report = result.report;
    if (output_gradient.defined()) report.task_loss = report.loss = report.consistency_loss = std::nan("");
    if (!open.layout->supervised_rows.empty()) {
      result.input_gradient =
          at::full({open.layout->rows(), width_}, gradient / 2 + open.weight, at::TensorOptions(at::kFloat));
    }
    spend(durations_.backward, begin);
    return result;
  }

  StepReport step(WindowIndex window) override {
    ZEROLOCK_INVARIANT(finished_ > 0 && (open_.empty() || reach_ == GradientReach::stashed),
                       "all micro-batches of the window are finished");
    spend(durations_.step, Clock::now());
    mix(window.value);
    committed_checksum_ = checksum_;
    committed_ = window;
    StepReport report;
    report.learning_rate = 1.0;
    report.micro_batches = std::exchange(finished_, 0);
    return report;
  }

  [[nodiscard]] bool needs_calibration() const override { return calibrates_ && !fitted_; }

  at::Tensor calibrate_begin(const Entry& entry) override {
    const auto begin = Clock::now();
    at::Tensor sent = forward(entry.payload.to(at::kDouble).reshape({entry.payload.size(0), -1}), 0);
    spend(durations_.forward, begin);
    kept_.push_back(sent.index_select(0, at::tensor(entry.layout->supervised_rows, at::kLong)));
    return sent;
  }

  [[nodiscard]] at::Tensor calibration_targets() const override {
    return kept_.empty() ? at::Tensor() : at::cat(kept_);
  }

  void calibrate_finish(const at::Tensor& targets) override {
    if (!needs_calibration()) return;
    const at::Tensor rows = calibration_targets();
    if (!rows.defined() || !targets.defined() || rows.sizes() != targets.sizes()) {
      throw RunError("the targets of the calibration are not those of the rows that this stage kept");
    }
    const at::Tensor order = at::arange(1, rows.numel() + 1, at::kDouble).reshape(rows.sizes());
    fitted_ = rows.add(targets, 3).to(at::kDouble).mul(order).sum().item<double>();
    kept_.clear();
    mix(static_cast<std::uint64_t>(static_cast<std::int64_t>(*fitted_ * 4096.0)));
    committed_checksum_ = checksum_;
  }

  [[nodiscard]] StageState state() const override {
    StageState state;
    state.window = committed_;
    if (fitted_) {
      state.tensors["head.simulated"] = at::full({1}, *fitted_, at::TensorOptions().dtype(at::kDouble));
    }
    state.tensors["lora.simulated"] =
        at::full({1}, static_cast<double>(committed_checksum_), at::TensorOptions().dtype(at::kDouble));
    if (state_bytes_ > 0) state.tensors["lora.zeros"] = at::zeros({state_bytes_ / 4}, at::kFloat);
    return state;
  }

  void restore(const StageState& state) override {
    const auto found = state.tensors.find("lora.simulated");
    if (found == state.tensors.end()) throw InputError("stage state", "lacks the tensor lora.simulated");
    committed_checksum_ = static_cast<std::uint64_t>(found->second.item<double>());
    checksum_ = committed_checksum_;
    const auto fitted = state.tensors.find("head.simulated");
    fitted_.reset();
    if (fitted != state.tensors.end()) fitted_ = fitted->second.item<double>();
    committed_ = state.window;
    finished_ = 0;
    open_.clear();
    kept_.clear();
  }

 private:
  struct Open {
    std::shared_ptr<const MicroBatchLayout> layout;
    double content;  // sum of the payload
    double weight;   // that the forward had
  };

  /// Until `duration` after `begin`: making the numbers is part of it.
  void spend(std::chrono::nanoseconds duration, Clock::time_point begin) const {
    const auto end = begin + duration;
    if (!durations_.occupies_core) std::this_thread::sleep_until(end);
    while (Clock::now() < end) {
    }
  }

  Open close(const BatchPosition& position) {
    const auto found = open_.find(position);
    ZEROLOCK_INVARIANT(found != open_.end(), "only what began can be finished: " + to_string(position));
    const Open open = found->second;
    open_.erase(found);
    return open;
  }

  LossReport backward(const BatchPosition& position, double content, const MicroBatchLayout& layout) {
    mix(position.window.value);
    mix(position.micro_batch);
    mix(static_cast<std::uint64_t>(static_cast<std::int64_t>(content * 4096.0)));
    ++finished_;
    LossReport report;
    report.supervised_rows = static_cast<std::int64_t>(layout.supervised_rows.size());
    report.examples = layout.sequences();
    if (report.supervised_rows == 0) return report;
    report.task_loss = 1.0 / (1.0 + static_cast<double>(position.window.value));
    report.loss = report.task_loss;
    return report;
  }

  /// Depends on the rows' input, and stays small.
  [[nodiscard]] at::Tensor forward(const at::Tensor& received, double weight) const {
    const at::Tensor row = received.mean(1, true).mul(0.5).add_(weight + static_cast<double>(stage_.value));
    return row.expand({row.size(0), width_}).to(at::kFloat).contiguous();
  }

  void mix(std::uint64_t value) {
    constexpr std::uint64_t mask = (1ULL << 52U) - 1;
    checksum_ = (checksum_ * 6364136223846793005ULL + value + 1442695040888963407ULL) & mask;
  }

  StageIndex stage_;
  std::int64_t width_;
  SimulatedDurations durations_;
  std::int64_t state_bytes_;
  bool calibrates_;
  GradientReach reach_;
  std::optional<double> fitted_;
  std::vector<at::Tensor> kept_;  // rows of the calibration
  std::map<BatchPosition, Open> open_;
  std::uint64_t checksum_ = 0;
  std::uint64_t committed_checksum_ = 0;
  std::int64_t finished_ = 0;
  WindowIndex committed_;
};

}  // namespace

std::unique_ptr<StageBackend> make_simulated_backend(StageIndex stage, std::int64_t width,
                                                     SimulatedDurations durations, bool calibrates,
                                                     GradientReach reach) {
  return std::make_unique<SimulatedBackend>(stage, width, SimulatedCompute{durations, 0}, calibrates, reach);
}

std::unique_ptr<StageBackend> make_simulated_backend(StageIndex stage, std::int64_t width,
                                                     const SimulatedCompute& compute, GradientReach reach) {
  return std::make_unique<SimulatedBackend>(stage, width, compute, false, reach);
}

}  // namespace zerolock
