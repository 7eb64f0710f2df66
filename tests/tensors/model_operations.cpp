/// The fused fp32 loops against ATen in fp64, and ATen's gradients against central differences.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/model/attention.hpp"
#include "tensors/model/feed_forward.hpp"
#include "tensors/model/lora.hpp"
#include "tensors/model/rms_norm.hpp"
#include "tensors/model/rotary.hpp"
#include "tests/tensors/model_support.hpp"

namespace zerolock::test {
namespace {

/// d sum(output * weights) / d input by central differences, entry by entry.
template <class Function>
at::Tensor central_differences(const at::Tensor& input, const at::Tensor& weights, Function function) {
  constexpr double step = 1e-5;
  at::Tensor gradient = at::empty_like(input);
  at::Tensor moved = input.clone();
  double* values = moved.data_ptr<double>();
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    const double before = values[i];
    values[i] = before + step;
    const double above = function(moved).mul(weights).sum().template item<double>();
    values[i] = before - step;
    const double below = function(moved).mul(weights).sum().template item<double>();
    values[i] = before;
    gradient.data_ptr<double>()[i] = (above - below) / (2 * step);
  }
  return gradient;
}

ModelConfig small_config() {
  ModelConfig config;
  config.head_dimension = 8;
  return config;
}

}  // namespace

TEST_CASE("root-mean-square norm: fused equals ATen, ATen equals differences") {
  const at::Tensor x = random_tensor({5, 37}, 1);
  const at::Tensor dy = random_tensor({5, 37}, 2);
  const RmsNorm norm{random_tensor({37}, 3), 1e-5};
  const RmsNorm single{norm.weight.to(at::kFloat), 1e-5};
  at::Tensor factors;
  at::Tensor single_factors;
  const at::Tensor y = rms_norm_forward(norm, x, &factors);
  const at::Tensor single_y = rms_norm_forward(single, x.to(at::kFloat), &single_factors);
  CHECK(largest_difference(y, single_y) < 2e-6);
  CHECK(largest_difference(factors, single_factors) < 1e-6);
  CHECK(rms_norm_again(single, x.to(at::kFloat), single_factors).equal(single_y));
  at::Tensor dx = at::zeros_like(x);
  at::Tensor single_dx = at::zeros({5, 37}, at::kFloat);
  rms_norm_backward(norm, dy, x, factors, dx);
  rms_norm_backward(single, dy.to(at::kFloat), x.to(at::kFloat), single_factors, single_dx);
  CHECK(largest_difference(dx, single_dx) < 1e-5);
  const auto forward = [&](const at::Tensor& moved) { return rms_norm_forward(norm, moved, nullptr); };
  CHECK(largest_difference(dx, central_differences(x, dy, forward)) < 1e-8);
}

TEST_CASE("rotary embedding: fused equals ATen, backward undoes forward, positions count from the offset") {
  const std::vector<std::int64_t> offsets = {0, 3, 10};
  RotaryTable exact(small_config(), at::kDouble);
  RotaryTable single(small_config(), at::kFloat);
  const at::Tensor x = random_tensor({10, 24}, 4);
  at::Tensor y = x.clone();
  at::Tensor single_y = x.to(at::kFloat);
  rotate(y, exact, offsets, 0, 8, Rotation::forward);
  rotate(single_y, single, offsets, 0, 8, Rotation::forward);
  CHECK(largest_difference(y, single_y) < 2e-6);
  CHECK(largest_difference(y[3], x[3]) < 1e-15);  // position 0 of the second sequence
  at::Tensor tail = x.narrow(0, 8, 2).clone();
  rotate(tail, exact, {0, 2}, 5, 8, Rotation::forward);
  CHECK(largest_difference(tail, y.narrow(0, 8, 2)) < 1e-15);
  rotate(y, exact, offsets, 0, 8, Rotation::backward);
  CHECK(largest_difference(y, x) < 1e-14);
  rotate(single_y, single, offsets, 0, 8, Rotation::backward);
  CHECK(largest_difference(single_y, x) < 2e-6);
}

TEST_CASE("SwiGLU: fused equals ATen, ATen equals differences") {
  const at::Tensor gate = random_tensor({4, 33}, 5).mul_(6);
  const at::Tensor up = random_tensor({4, 33}, 6);
  const at::Tensor dy = random_tensor({4, 33}, 7);
  CHECK(largest_difference(swiglu_forward(gate, up), swiglu_forward(gate.to(at::kFloat), up.to(at::kFloat))) <
        1e-5);
  at::Tensor dgate = gate.clone();
  at::Tensor dup = up.clone();
  swiglu_backward(dy, dgate, dup);
  at::Tensor single_dgate = gate.to(at::kFloat);
  at::Tensor single_dup = up.to(at::kFloat);
  swiglu_backward(dy.to(at::kFloat), single_dgate, single_dup);
  CHECK(largest_difference(dgate, single_dgate) < 1e-5);
  CHECK(largest_difference(dup, single_dup) < 1e-5);
  const auto of_gate = [&](const at::Tensor& moved) { return swiglu_forward(moved, up); };
  const auto of_up = [&](const at::Tensor& moved) { return swiglu_forward(gate, moved); };
  CHECK(largest_difference(dgate, central_differences(gate, dy, of_gate)) < 1e-8);
  CHECK(largest_difference(dup, central_differences(up, dy, of_up)) < 1e-8);
  const at::Tensor extreme = at::tensor({-200.0F, -90.0F, 90.0F, 200.0F});
  const at::Tensor silu = swiglu_forward(extreme, at::ones({4}));
  CHECK(largest_difference(silu, at::silu(extreme)) < 1e-5);
}

TEST_CASE("attention: fused equals ATen, ATen equals differences, sequences see only themselves") {
  const AttentionShape shape{6, 2, 8};
  const std::vector<std::int64_t> offsets = {0, 1, 6, 9};
  const at::Tensor q = random_tensor({9, 48}, 8);
  const at::Tensor k = random_tensor({9, 16}, 9);
  const at::Tensor v = random_tensor({9, 16}, 10);
  const at::Tensor dy = random_tensor({9, 48}, 11);
  const AttentionResult exact = attention_forward(q, k, v, offsets, shape);
  const auto single = [](const at::Tensor& x) { return x.to(at::kFloat); };
  const AttentionResult fast = attention_forward(single(q), single(k), single(v), offsets, shape);
  CHECK(largest_difference(exact.output, fast.output) < 2e-6);
  CHECK(largest_difference(exact.logsumexp, fast.logsumexp) < 2e-6);
  const AttentionGradients gradients = attention_backward(dy, q, k, v, exact, offsets, shape);
  const AttentionGradients fast_gradients =
      attention_backward(single(dy), single(q), single(k), single(v), fast, offsets, shape);
  CHECK(largest_difference(gradients.query, fast_gradients.query) < 5e-6);
  CHECK(largest_difference(gradients.key, fast_gradients.key) < 5e-6);
  CHECK(largest_difference(gradients.value, fast_gradients.value) < 5e-6);
  const auto of_q = [&](const at::Tensor& x) { return attention_forward(x, k, v, offsets, shape).output; };
  const auto of_k = [&](const at::Tensor& x) { return attention_forward(q, x, v, offsets, shape).output; };
  const auto of_v = [&](const at::Tensor& x) { return attention_forward(q, k, x, offsets, shape).output; };
  CHECK(largest_difference(gradients.query, central_differences(q, dy, of_q)) < 1e-8);
  CHECK(largest_difference(gradients.key, central_differences(k, dy, of_k)) < 1e-8);
  CHECK(largest_difference(gradients.value, central_differences(v, dy, of_v)) < 1e-8);
  at::Tensor other = k.clone();
  other.narrow(0, 6, 3).mul_(3);
  const at::Tensor moved = attention_forward(q, other, v, offsets, shape).output;
  CHECK(moved.narrow(0, 0, 6).equal(exact.output.narrow(0, 0, 6)));
}

TEST_CASE("attention in blocks of queries gives what all scores at once give") {
  const AttentionShape shape{4, 2, 8};
  const std::vector<std::int64_t> offsets = {0, 128, 257, 260,
                                             560};  // one block, and one row more, and three
  const at::Tensor q = random_tensor({560, 32}, 41);
  const at::Tensor k = random_tensor({560, 16}, 42);
  const at::Tensor v = random_tensor({560, 16}, 43);
  const at::Tensor dy = random_tensor({560, 32}, 44);
  const auto single = [](const at::Tensor& x) { return x.to(at::kFloat); };
  const AttentionResult exact = attention_forward(q, k, v, offsets, shape);  // fp64 has no blocks
  const AttentionResult fast = attention_forward(single(q), single(k), single(v), offsets, shape);
  CHECK(largest_difference(exact.output, fast.output) < 2e-6);
  CHECK(largest_difference(exact.logsumexp, fast.logsumexp) < 5e-6);
  const AttentionGradients gradients = attention_backward(dy, q, k, v, exact, offsets, shape);
  const AttentionGradients blocks =
      attention_backward(single(dy), single(q), single(k), single(v), fast, offsets, shape);
  CHECK(largest_difference(gradients.query, blocks.query) < 5e-6);
  CHECK(largest_difference(gradients.key, blocks.key) < 2e-5);
  CHECK(largest_difference(gradients.value, blocks.value) < 2e-5);
  CHECK(attention_scores(128) == 128 * 128);
  CHECK(attention_scores(129) == 128 * 128 + 129);
  CHECK(attention_scores(300) == 128 * 128 + 128 * 256 + 44 * 300);
}

TEST_CASE("a LoRA pair starts from its seed and name alone") {
  const std::string name = "base_model.model.model.layers.3.self_attn.q_proj";
  const LoraPair first = make_lora_pair(name, 4, 64, 32, 4.0, 17, at::kFloat);
  const LoraPair again = make_lora_pair(name, 4, 64, 32, 4.0, 17, at::kFloat);
  CHECK(first.a.equal(again.a));
  CHECK_FALSE(first.a.equal(make_lora_pair(name, 4, 64, 32, 4.0, 18, at::kFloat).a));
  CHECK_FALSE(first.a.equal(make_lora_pair(name + "x", 4, 64, 32, 4.0, 17, at::kFloat).a));
  CHECK(first.b.abs().max().item<float>() == 0.0F);
  const float bound = 1.0F / 8.0F;  // 1 / sqrt(64)
  CHECK(first.a.abs().max().item<float>() <= bound);
  CHECK(first.a.abs().max().item<float>() > 0.9F * bound);
  CHECK(std::abs(first.a.mean().item<float>()) < 0.1F * bound);
}

}  // namespace zerolock::test
