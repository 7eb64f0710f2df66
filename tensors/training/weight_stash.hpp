#pragma once
/// The weights that open micro-batches were forwarded with, where optimizer steps come between a forward and
/// its backward: PipeDream's weight stashing (Narayanan et al. 2019).

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <vector>

#include "tensors/base/indices.hpp"
#include "tensors/model/lora.hpp"

namespace zerolock {

/// Of one stage's LoRA pairs; everything else is frozen. A version is copied only when a step is about to
/// change it under open micro-batches, once for all of them, and goes with the last. Copies are charged to
/// "weights" of the account in force.
class WeightStash {
  struct Version {
    std::vector<at::Tensor> a;
    std::vector<at::Tensor> b;
  };

 public:
  /// The pairs must outlive the stash and stay where they are.
  explicit WeightStash(std::vector<LoraPair*> pairs) : pairs_(std::move(pairs)) {}

  /// The micro-batch has been forwarded with the weights as they are now.
  void opened(const BatchPosition& position);
  /// The weights are about to change.
  void before_step();

  /// While alive, the pairs have the weights that the micro-batch was forwarded with.
  class Restored {
   public:
    Restored(const std::vector<LoraPair*>& pairs, std::shared_ptr<Version> version);
    ~Restored();
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;

   private:
    void exchange();

    const std::vector<LoraPair*>& pairs_;
    std::shared_ptr<Version> version_;  // null: the weights have not changed since
  };
  /// Forgets the micro-batch, whose backward comes now.
  [[nodiscard]] Restored restored(const BatchPosition& position);

  void clear() { open_.clear(); }

 private:
  std::vector<LoraPair*> pairs_;
  std::map<BatchPosition, std::shared_ptr<Version>> open_;  // null: with the weights as they are
};

}  // namespace zerolock
