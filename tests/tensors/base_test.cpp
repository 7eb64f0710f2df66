// ATen before Catch2: both define CHECK, and the later one must win.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <thread>

#include "tensors/base/entry.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/base/sgemm.hpp"
#include "tensors/base/sha256.hpp"
//
#include <catch2/catch.hpp>

using namespace zerolock;

TEST_CASE("a tensor's bytes are charged to the scope it was made in and returned there by any thread") {
  install_memory_accounting();
  MemoryAccount stage_a;
  MemoryAccount stage_b;
  at::Tensor made;
  {
    const MemoryScope scope(stage_a, MemoryComponent::activations);
    made = at::zeros({1000}, at::kFloat);
    CHECK(stage_a.current_bytes(MemoryComponent::activations) == 4000);
    {
      const MemoryScope inner(MemoryComponent::loss);
      const at::Tensor temporary = at::zeros({10}, at::kFloat);
      CHECK(stage_a.current_bytes(MemoryComponent::loss) == 40);
      CHECK(stage_a.current_total_bytes() == 4040);
    }
    CHECK(stage_a.current_bytes(MemoryComponent::loss) == 0);
  }
  std::thread([&] {
    const MemoryScope scope(stage_b, MemoryComponent::buffers);
    made.reset();
  }).join();
  CHECK(stage_a.current_total_bytes() == 0);
  CHECK(stage_a.peak_total_bytes() == 4040);
  CHECK(stage_a.peak_bytes(MemoryComponent::loss) == 40);
  CHECK(stage_b.peak_total_bytes() == 0);
}

TEST_CASE("peaks start again from what is held") {
  MemoryAccount account;
  account.add(MemoryComponent::weights, 100);
  account.add(MemoryComponent::weights, -60);
  account.reset_peaks();
  CHECK(account.peak_bytes(MemoryComponent::weights) == 40);
  CHECK(account.peak_total_bytes() == 40);
}

TEST_CASE("LibTorch's products go through the oneDNN sgemm and are right in all four transpositions") {
  at::set_num_threads(1);
  const at::Tensor a = at::randn({33, 47}, at::kDouble);
  const at::Tensor b = at::randn({47, 29}, at::kDouble);
  const at::Tensor expected = at::mm(a, b);  // fp64 takes the reference path
  start_gemm_clock();
  const at::Tensor af = a.to(at::kFloat);
  const at::Tensor bf = b.to(at::kFloat);
  const at::Tensor at_stored = af.t().contiguous();
  const at::Tensor bt_stored = bf.t().contiguous();
  for (const at::Tensor& left : {af, at_stored.t()}) {
    for (const at::Tensor& right : {bf, bt_stored.t()}) {
      CHECK(at::allclose(at::mm(left, right).to(at::kDouble), expected, 1e-5, 1e-5));
    }
  }
  CHECK(gemm_use().calls == 4);
  CHECK(gemm_use().flops == 4 * 2.0 * 33 * 47 * 29);
}

TEST_CASE("SHA-256 gives FIPS 180-2's example") {
  CHECK(sha256_of(std::string_view("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  pieces.update(std::string_view("a"));
  pieces.update(std::string_view("bc"));
  CHECK(pieces.finish() == sha256_of(std::string_view("abc")));
  CHECK_THROWS_AS(sha256_of_file("no/such/file"), InputError);
}

TEST_CASE("a layout that contradicts itself is refused") {
  MicroBatchLayout layout{{0, 3, 5}, {1, 4}, {7, 8}};
  CHECK_NOTHROW(layout.check());
  CHECK(layout.sequences() == 2);
  CHECK(layout.rows() == 5);
  layout.targets.pop_back();
  CHECK_THROWS_AS(layout.check(), std::logic_error);
  CHECK_THROWS_AS((MicroBatchLayout{{0, 3, 3}, {}, {}}.check()), std::logic_error);
  CHECK_THROWS_AS((MicroBatchLayout{{0, 3}, {3}, {1}}.check()), std::logic_error);
}
