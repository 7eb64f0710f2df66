#pragma once
/// AdamW (Loshchilov and Hutter 2019) and plain SGD over a stage's trainable tensors, with torch's formulas.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensors/training/settings.hpp"
#include "tensors/training/stage_backend.hpp"
#include "tensors/training/trainable.hpp"

namespace zerolock {

/// Copies a named tensor of a state. Throws InputError if it is missing or has another shape.
void copy_from_state(const StageState& state, const std::string& name, at::Tensor& into);

/// Norm of all gradients as one vector, summed in fp64 in the order of the tensors.
double gradient_norm(const std::vector<TrainableTensor>& tensors);

/// Scales the gradients so that their norm is at most `limit`, as torch.nn.utils.clip_grad_norm_ does:
/// factor min(1, limit / (norm + 1e-6)).
void clip_gradients(const std::vector<TrainableTensor>& tensors, double norm, double limit);

/// With t the number of a tensor's step, counted from 1 after its warm-up, and lr its rate:
///   AdamW: p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
///          p -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
///   SGD:   p *= 1 - lr wd;  p -= lr g
class Optimizer {
 public:
  /// Moments are charged to the component "optimizer".
  Optimizer(const OptimizerSettings& settings, std::vector<TrainableTensor> tensors);

  /// One step with the gradients as they stand.
  void step(double learning_rate);
  [[nodiscard]] const std::vector<TrainableTensor>& tensors() const { return tensors_; }
  /// Steps taken since the fresh start, warm-up included.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  /// Adds copies of the moments ("optimizer.first_moment.<name>", …) and "optimizer.steps" to the state.
  void export_to(StageState& state) const;
  /// Takes moments and step count over. A state that says nothing of an optimizer is a fresh start: no steps,
  /// moments zero. Throws InputError if a moment is missing or has another shape.
  void import_from(const StageState& state);

 private:
  OptimizerSettings settings_;
  std::vector<TrainableTensor> tensors_;
  std::vector<at::Tensor> first_moments_;   // AdamW only
  std::vector<at::Tensor> second_moments_;  // AdamW only
  std::uint64_t steps_ = 0;
};

}  // namespace zerolock
