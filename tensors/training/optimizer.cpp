#include "tensors/training/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {
namespace {

constexpr const char* steps_key = "optimizer.steps";
constexpr const char* first_prefix = "optimizer.first_moment.";
constexpr const char* second_prefix = "optimizer.second_moment.";

template <class Number>
double sum_of_squares(const at::Tensor& tensor) {
  const Number* values = tensor.data_ptr<Number>();
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

}  // namespace

double gradient_norm(const std::vector<TrainableTensor>& tensors) {
  double sum = 0;
  for (const TrainableTensor& tensor : tensors) {
    const at::Tensor gradient = tensor.gradient.cpu().contiguous();
    sum += gradient.scalar_type() == at::kDouble ? sum_of_squares<double>(gradient)
                                                 : sum_of_squares<float>(gradient);
  }
  return std::sqrt(sum);
}

void clip_gradients(const std::vector<TrainableTensor>& tensors, double norm, double limit) {
  const double factor = std::min(1.0, limit / (norm + 1e-6));
  if (factor == 1.0) return;
  for (TrainableTensor tensor : tensors) tensor.gradient.mul_(factor);
}

Optimizer::Optimizer(const OptimizerSettings& settings, std::vector<TrainableTensor> tensors)
    : settings_(settings), tensors_(std::move(tensors)) {
  if (settings_.kind != OptimizerKind::adamw) return;
  const MemoryScope scope(MemoryComponent::optimizer);
  for (const TrainableTensor& tensor : tensors_) {
    first_moments_.push_back(at::zeros_like(tensor.value));
    second_moments_.push_back(at::zeros_like(tensor.value));
  }
}

void Optimizer::step(double learning_rate) {
  ++steps_;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor& value = tensors_[i].value;
    const at::Tensor& gradient = tensors_[i].gradient;
    if (steps_ <= tensors_[i].warm_up) continue;
    value.mul_(1 - learning_rate * settings_.weight_decay);
    if (settings_.kind == OptimizerKind::sgd) {
      value.sub_(gradient, learning_rate);
      continue;
    }
    const auto t = static_cast<double>(steps_ - tensors_[i].warm_up);
    first_moments_[i].mul_(settings_.beta1).add_(gradient, 1 - settings_.beta1);
    second_moments_[i].mul_(settings_.beta2).addcmul_(gradient, gradient, 1 - settings_.beta2);
    const double first_share = 1 - std::pow(settings_.beta1, t);
    const double second_share = 1 - std::pow(settings_.beta2, t);
    const at::Tensor denominator =
        second_moments_[i].sqrt().div_(std::sqrt(second_share)).add_(settings_.epsilon);
    value.addcdiv_(first_moments_[i], denominator, -learning_rate / first_share);
  }
}

void Optimizer::export_to(StageState& state) const {
  state.metadata[steps_key] = std::to_string(steps_);
  for (std::size_t i = 0; i < first_moments_.size(); ++i) {
    state.tensors[first_prefix + tensors_[i].name] = first_moments_[i].clone();
    state.tensors[second_prefix + tensors_[i].name] = second_moments_[i].clone();
  }
}

void Optimizer::import_from(const StageState& state) {
  const auto steps = state.metadata.find(steps_key);
  steps_ = steps == state.metadata.end() ? 0 : std::stoull(steps->second);
  for (std::size_t i = 0; i < first_moments_.size(); ++i) {
    if (steps_ == 0) {
      first_moments_[i].zero_();
      second_moments_[i].zero_();
      continue;
    }
    copy_from_state(state, first_prefix + tensors_[i].name, first_moments_[i]);
    copy_from_state(state, second_prefix + tensors_[i].name, second_moments_[i]);
  }
}

void copy_from_state(const StageState& state, const std::string& name, at::Tensor& into) {
  const auto found = state.tensors.find(name);
  if (found == state.tensors.end()) throw InputError("stage state", "lacks the tensor " + name);
  if (found->second.sizes() != into.sizes()) {
    throw InputError("stage state", "tensor " + name + " has another shape than this stage's");
  }
  into.copy_(found->second);
}

}  // namespace zerolock
