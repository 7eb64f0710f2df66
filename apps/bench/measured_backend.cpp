#include "apps/bench/measured_backend.hpp"

#include <type_traits>

#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

class MeasuredBackend : public StageBackend {
 public:
  MeasuredBackend(std::unique_ptr<StageBackend> inner, StageUse& use) : inner_(std::move(inner)), use_(use) {
    start_gemm_clock();
  }

  at::Tensor begin(const Entry& entry) override {
    return measure([&] { return inner_->begin(entry); });
  }
  LossReport finish(const BatchPosition& position) override {
    return measure([&] { return inner_->finish(position); });
  }
  BackwardResult backpropagate(const BatchPosition& position, at::Tensor output_gradient) override {
    return measure([&] { return inner_->backpropagate(position, std::move(output_gradient)); });
  }
  StepReport step(WindowIndex window) override {
    return measure([&] { return inner_->step(window); });
  }
  [[nodiscard]] bool needs_calibration() const override { return inner_->needs_calibration(); }
  at::Tensor calibrate_begin(const Entry& entry) override {
    return measure([&] { return inner_->calibrate_begin(entry); });
  }
  [[nodiscard]] at::Tensor calibration_targets() const override { return inner_->calibration_targets(); }
  void calibrate_finish(const at::Tensor& targets) override {
    measure([&] {
      inner_->calibrate_finish(targets);
      return true;
    });
  }
  [[nodiscard]] StageState state() const override { return inner_->state(); }
  void restore(const StageState& state) override { inner_->restore(state); }

 private:
  template <class Work>
  std::invoke_result_t<const Work&> measure(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    const GemmUse before = gemm_use();
    auto result = work();
    const GemmUse after = gemm_use();
    use_.busy += std::chrono::steady_clock::now() - begin;
    use_.gemm += after.time - before.time;
    use_.flops += after.flops - before.flops;
    return result;
  }

  std::unique_ptr<StageBackend> inner_;
  StageUse& use_;
};

}  // namespace

std::unique_ptr<StageBackend> measured(std::unique_ptr<StageBackend> inner, StageUse& use) {
  return std::make_unique<MeasuredBackend>(std::move(inner), use);
}

}  // namespace zerolock
