#include "tensors/training/weight_stash.hpp"

#include <algorithm>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {

void WeightStash::opened(const BatchPosition& position) {
  const bool fresh = open_.emplace(position, nullptr).second;
  ZEROLOCK_INVARIANT(fresh, "a micro-batch begins once");
}

void WeightStash::before_step() {
  const auto current = [](const auto& open) { return open.second == nullptr; };
  if (std::none_of(open_.begin(), open_.end(), current)) return;
  const MemoryScope scope(MemoryComponent::weights);
  const auto version = std::make_shared<Version>();
  for (const LoraPair* pair : pairs_) {
    version->a.push_back(pair->a.clone());
    version->b.push_back(pair->b.clone());
  }
  for (auto& [position, used] : open_) {
    if (!used) used = version;
  }
}

WeightStash::Restored WeightStash::restored(const BatchPosition& position) {
  const auto found = open_.find(position);
  ZEROLOCK_INVARIANT(found != open_.end(), "only what began has weights of its own: " + to_string(position));
  std::shared_ptr<Version> version = std::move(found->second);
  open_.erase(found);
  return {pairs_, std::move(version)};
}

WeightStash::Restored::Restored(const std::vector<LoraPair*>& pairs, std::shared_ptr<Version> version)
    : pairs_(pairs), version_(std::move(version)) {
  exchange();
}

WeightStash::Restored::~Restored() {
  exchange();
}

void WeightStash::Restored::exchange() {
  if (!version_) return;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    std::swap(pairs_[i]->a, version_->a[i]);
    std::swap(pairs_[i]->b, version_->b[i]);
  }
}

}  // namespace zerolock
