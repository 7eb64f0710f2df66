#include "apps/command/adapted_model.hpp"

namespace zerolock {

AdaptedModel::AdaptedModel(const std::filesystem::path& model,
                           const std::optional<std::filesystem::path>& adapter)
    : opened_(open_model(model)) {
  if (adapter) adapter_ = read_adapter(*adapter, *opened_.files);
}

std::unique_ptr<CausalModel> AdaptedModel::make() const {
  LoraPlan plan;
  if (adapter_) {
    plan.rank = adapter_->settings.rank;
    plan.scale = adapter_->settings.scale();
    plan.targets = adapter_->settings.targets;
  }
  auto model = std::make_unique<CausalModel>(opened_.files, at::kFloat, plan);
  if (adapter_) model->set_adapter(adapter_->tensors);
  return model;
}

}  // namespace zerolock
