#pragma once
/// How fast this machine multiplies matrices, and the guard against being silently slow.
/// sgemm.cpp also defines the BLAS symbol sgemm_ on oneDNN, so that LibTorch's own products are fast
/// whichever libblas the machine has.

#include <chrono>
#include <cstdint>

namespace zerolock {

/// GFLOP/s of an fp32 product of 512 x 512 matrices through LibTorch, computed by so many threads together:
/// the best of a few runs (about 20 ms in all on a machine that does 100).
double measure_sgemm_gflops(int threads = 1);

/// Below this a matrix product is certainly running on reference BLAS.
inline constexpr double sgemm_gflops_min = 10.0;

/// Measures once a process, says the figure in the log, and throws RunError if it is under sgemm_gflops_min,
/// unless the environment variable ZEROLOCK_ALLOW_SLOW_GEMM is set (sanitizer builds need it).
double require_fast_sgemm();

/// What a thread spent in matrix products.
struct GemmUse {
  std::chrono::nanoseconds time{0};
  std::uint64_t calls = 0;
  double flops = 0;
};

/// Counts the fp32 products of the calling thread from here on, at the price of two clock reads a product;
/// off until called. The count is read with gemm_use().
void start_gemm_clock();
/// What the calling thread used since its start_gemm_clock().
GemmUse gemm_use();

}  // namespace zerolock
