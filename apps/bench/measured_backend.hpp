#pragma once
/// A stage backend that measures the one inside it.

#include <chrono>
#include <memory>

#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// What a stage's compute was spent on. Read it after the run.
struct StageUse {
  std::chrono::nanoseconds busy{0};  // in forward, backward and step
  std::chrono::nanoseconds gemm{0};  // of that in matrix products
  double flops = 0;                  // of those products
};

/// Passes everything through to `inner` and adds to `use`, which must outlive it. Construct it in the thread
/// that will use it: it starts that thread's GEMM clock.
std::unique_ptr<StageBackend> measured(std::unique_ptr<StageBackend> inner, StageUse& use);

}  // namespace zerolock
