#include "tensors/training/readout_head.hpp"

#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/adapter_head.hpp"
#include "tensors/training/bottleneck_head.hpp"
#include "tensors/training/calibrated_head.hpp"
#include "tensors/training/frozen_head.hpp"

namespace zerolock {

void ReadoutHead::outputs_backward(const at::Tensor& /*dlogits*/, const at::Tensor& /*features*/) {
  ZEROLOCK_INVARIANT(false, "a head that trains its outputs says how");
}

void ReadoutHead::export_fitted(std::map<std::string, at::Tensor>& /*tensors*/) const {}
void ReadoutHead::import_fitted(const std::map<std::string, at::Tensor>& /*tensors*/) {}

at::ScalarType wide_type(at::ScalarType compute_type) {
  return compute_type == at::kDouble ? at::kDouble : at::kFloat;
}

RmsNorm final_norm(const ModelFiles& model, at::ScalarType type) {
  const MemoryScope scope(MemoryComponent::weights);
  return {model.tensor("model.norm.weight").expand(type), model.config().rms_norm_epsilon};
}

std::unique_ptr<ReadoutHead> make_readout_head(const ModelFiles& model, const HeadSettings& settings,
                                               const HeadPlace& place, at::ScalarType compute_type,
                                               std::shared_ptr<const TokenRows> rows) {
  settings.check();
  const at::ScalarType wide = wide_type(compute_type);
  switch (settings.kind) {
    case HeadKind::fixed:
    case HeadKind::restricted:
      break;
    case HeadKind::calibrated:
      return std::make_unique<CalibratedHead>(place.name, final_norm(model, wide), compute_type,
                                              std::move(rows));
    case HeadKind::adapter:
      return std::make_unique<AdapterHead>(place, settings.adapter_width, final_norm(model, wide),
                                           compute_type, std::move(rows));
    case HeadKind::bottleneck:
      return std::make_unique<BottleneckHead>(place.name, settings, final_norm(model, wide), compute_type,
                                              *rows);
  }
  return std::make_unique<FrozenHead>(final_norm(model, compute_type), std::move(rows));
}

}  // namespace zerolock
