#include "tensors/base/sgemm.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

struct GemmClock {
  bool running = false;
  GemmUse use;
};
thread_local GemmClock gemm_clock;

}  // namespace
}  // namespace zerolock

// oneDNN's row-major product; the library comes with LibTorch, its headers need not be installed.
// https://oneapi-src.github.io/oneDNN/v2.6/group_dnnl_api_blas.html
extern "C" int dnnl_sgemm(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                          float beta, float* c, std::int64_t ldc);

// BLAS's own name: the dynamic linker gives LibTorch this definition before libblas's. A column-major C is a
// row-major transposed C, so the operands change places.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda, const float* b,
                       const int* ldb, const float* beta, float* c, const int* ldc) {
  const auto plain = [](char t) { return t == 'n' || t == 'N' ? 'N' : 'T'; };
  const auto multiply = [&] {
    return dnnl_sgemm(plain(*transpose_b), plain(*transpose_a), *n, *m, *k, *alpha, b, *ldb, a, *lda, *beta,
                      c, *ldc);
  };
  zerolock::GemmClock& clock = zerolock::gemm_clock;
  if (!clock.running) {
    if (multiply() != 0) std::abort();  // only for impossible arguments; BLAS has no way to report them
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (multiply() != 0) std::abort();
  clock.use.time += std::chrono::steady_clock::now() - begin;
  clock.use.calls += 1;
  clock.use.flops += 2.0 * *m * *n * *k;
}

namespace zerolock {

void start_gemm_clock() {
  gemm_clock = {true, {}};
}

GemmUse gemm_use() {
  return gemm_clock.use;
}

double measure_sgemm_gflops(int threads) {
  constexpr std::int64_t side = 512;
  constexpr int runs = 5;
  const int threads_before = at::get_num_threads();
  at::set_num_threads(threads);
  const at::Tensor a = at::ones({side, side}, at::kFloat);
  const at::Tensor b = at::ones({side, side}, at::kFloat);
  at::Tensor c = at::empty({side, side}, at::kFloat);
  at::mm_out(c, a, b);  // oneDNN makes its kernels at the first product: that one is not timed
  double best_seconds = HUGE_VAL;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    at::mm_out(c, a, b);
    best_seconds = std::min(best_seconds,
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  at::set_num_threads(threads_before);
  return 2.0 * side * side * side / best_seconds / 1e9;
}

double require_fast_sgemm() {
  static std::once_flag once;
  static double gflops = 0;
  std::call_once(once, [] {
    gflops = measure_sgemm_gflops(1);
    spdlog::info("fp32 matrix products run at {:.0f} GFLOP/s on one core", gflops);
  });
  if (gflops < sgemm_gflops_min && std::getenv("ZEROLOCK_ALLOW_SLOW_GEMM") == nullptr) {
    throw RunError(
        "fp32 matrix products run at " + std::to_string(gflops) + " GFLOP/s on one core, under " +
        std::to_string(sgemm_gflops_min) +
        ": the BLAS behind LibTorch is a slow one; set ZEROLOCK_ALLOW_SLOW_GEMM=1 to go on all the same");
  }
  return gflops;
}

}  // namespace zerolock
