#pragma once
/// How fast this machine multiplies matrices, and the guard against being silently slow.
/// sgemm.cpp also defines the BLAS symbol sgemm_ on oneDNN, so that LibTorch's own products are fast whichever
/// libblas the machine has.

#include <cstddef>

namespace zerolock {

/// GFLOP/s of a single-threaded fp32 product of 512 x 512 matrices through LibTorch: the best of a few runs
/// (about 20 ms in all on a machine that does 100).
double measure_sgemm_gflops();

/// Below this a matrix product is certainly running on reference BLAS.
inline constexpr double sgemm_gflops_min = 10.0;

/// Measures once a process, says the figure in the log, and throws RunError if it is under sgemm_gflops_min, unless
/// the environment variable ZEROLOCK_ALLOW_SLOW_GEMM is set (sanitizer builds need it).
double require_fast_sgemm();

}  // namespace zerolock
