#include "tensors/training/settings.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "tensors/base/error.hpp"

namespace zerolock {

double LoraSettings::scale() const {
  const auto r = static_cast<double>(rank);
  return rank_stabilised ? alpha / std::sqrt(r) : alpha / r;
}

void HeadSettings::check() const {
  if (kind == HeadKind::fixed && !restricted_tokens.empty()) {
    throw InputError("static head", "is over the whole vocabulary; tokens were given");
  }
  if (kind == HeadKind::restricted && restricted_tokens.empty()) {
    throw InputError("restricted head", "needs at least one token id");
  }
  if (!(ridge > 0) || !std::isfinite(ridge)) {
    throw InputError("ridge constant of a calibrated head", "must be greater than 0");
  }
  if (bottleneck_rank < 1) throw InputError("rank of a bottleneck head", "must be at least 1");
  if (adapter_width < 1) throw InputError("width of an adapter head", "must be at least 1");
}

void TrainingSettings::check(std::uint64_t stages) const {
  if (lora.rank < 1) throw InputError("LoRA rank", "must be at least 1");
  if (!(loss.alpha > 0) || loss.alpha > 1) {
    throw InputError("alpha", "must be greater than 0 and at most 1");
  }
  if (!(loss.label_smoothing > 0) || loss.label_smoothing >= 1) {
    throw InputError("label smoothing", "must be greater than 0 and less than 1");
  }
  if (!(optimizer.inner_learning_rate_scale > 0) || !std::isfinite(optimizer.inner_learning_rate_scale)) {
    throw InputError("learning rate scale of inner stages", "must be greater than 0");
  }
  if (calibration_rows_max < 2) throw InputError("calibration rows", "must be at least 2");
  loss.inner_head.check();
  loss.last_head.check();
  if (loss.last_head.kind == HeadKind::calibrated) {
    throw InputError("calibrated head",
                     "is for inner stages; the last stage's state is what they are fitted to");
  }
  if (!trained_stages) return;
  if (trained_stages->empty()) throw InputError("trained stages", "must be at least one");
  if (*trained_stages->rbegin() >= stages) {
    throw InputError("trained stages", "stage " + std::to_string(*trained_stages->rbegin()) +
                                           " is not one of the run's " + std::to_string(stages));
  }
}

at::ScalarType scalar_type(ComputeType type) {
  switch (type) {
    case ComputeType::bf16:
      return at::kBFloat16;
    case ComputeType::fp64:
      return at::kDouble;
    case ComputeType::fp32:
      break;
  }
  return at::kFloat;
}

}  // namespace zerolock
