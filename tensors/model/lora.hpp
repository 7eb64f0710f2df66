#pragma once
/// Low-rank adaptation (Hu et al. 2021) of one linear layer: y += scale * B (A x), A [rank, in], B [out,
/// rank].

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace zerolock {

/// The trainable pair of one linear layer with its gradient sums. Weights and gradients are fp32 (fp64 when
/// the model computes in fp64), whatever the compute type.
struct LoraPair {
  std::string name;  // PEFT's name of the layer: "base_model.model.model.layers.3.self_attn.q_proj"
  double scale = 1;
  bool active = true;     // off: the layer computes as if it had no pair
  at::Tensor a;           // [rank, in]
  at::Tensor b;           // [out, rank]
  at::Tensor a_gradient;  // like a
  at::Tensor b_gradient;  // like b

  [[nodiscard]] std::string a_name() const { return name + ".lora_A.weight"; }
  [[nodiscard]] std::string b_name() const { return name + ".lora_B.weight"; }
};

/// PEFT's default start: A uniform in +-1/sqrt(in), B zero. The numbers come from `seed` and `name` alone, so
/// they depend neither on the partition nor on the order in which layers are made.
LoraPair make_lora_pair(std::string name, std::int64_t rank, std::int64_t in, std::int64_t out, double scale,
                        std::uint64_t seed, at::ScalarType type);

/// Numbers uniform in +-bound that come from `seed` and `name` alone.
at::Tensor seeded_uniform(const std::string& name, std::uint64_t seed, at::IntArrayRef shape, double bound,
                          at::ScalarType type);

/// y [rows, out] += scale * (x A^T) B^T, x [rows, in]. Returns x A^T [rows, rank], which backward needs.
at::Tensor lora_forward(const LoraPair& lora, const at::Tensor& x, at::Tensor& y);

/// Where the micro-batches begin whose rows lie one after another: [micro-batches + 1], from 0 to the number
/// of rows. Empty: the rows are of one.
using RowParts = std::vector<std::int64_t>;

/// Adds the gradients of A and B to the pair's sums, one micro-batch after the other, and, if dx is defined,
/// that of x to dx [rows, in]. dy [rows, out]; projected: what lora_forward returned.
void lora_backward(LoraPair& lora, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& projected,
                   const at::Tensor& dx, const RowParts& parts = {});

}  // namespace zerolock
