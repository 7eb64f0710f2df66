#include "tensors/training/stage_backend.hpp"

#include "tensors/base/error.hpp"

namespace zerolock {

BackwardResult StageBackend::backpropagate(const BatchPosition& /*position*/,
                                           at::Tensor /*output_gradient*/) {
  ZEROLOCK_INVARIANT(false, "this backend has a loss of its own, and takes no gradient from a next stage");
  return {};
}

at::Tensor StageBackend::calibrate_begin(const Entry& /*entry*/) {
  ZEROLOCK_INVARIANT(false, "this backend has nothing to calibrate");
  return {};
}

}  // namespace zerolock
