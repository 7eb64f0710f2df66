#include "tensors/model/rotary.hpp"

#include <algorithm>
#include <cmath>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/model/fused_loops.hpp"
#include "tensors/model/tensor_kind.hpp"

namespace zerolock {
namespace {

/// Long waves are slowed down by the factor, short ones kept, those between blended.
double stretched(double frequency, const Llama3RopeScaling& scaling) {
  const double wavelength = 2 * M_PI / frequency;
  const double ratio = scaling.original_context_length / wavelength;
  if (ratio > scaling.high_frequency_factor) return frequency;
  if (ratio < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double smooth =
      (ratio - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<double> rotary_frequencies(const ModelConfig& config) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < config.head_dimension / 2; ++i) {
    const double frequency = std::pow(
        config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dimension));
    frequencies.push_back(config.rope_scaling ? stretched(frequency, *config.rope_scaling) : frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const ModelConfig& config, at::ScalarType type)
    : frequencies_(rotary_frequencies(config)), type_(type) {}

void RotaryTable::grow(std::int64_t count) {
  const std::int64_t have = cosine_.defined() ? cosine_.size(0) : 0;
  if (count <= have) return;
  const MemoryScope scope(MemoryComponent::activations);
  // Doubling keeps decoding, which asks for one position more each time, linear.
  const std::int64_t positions = std::max({count, 2 * have, std::int64_t{64}});
  const std::int64_t half = static_cast<std::int64_t>(frequencies_.size());
  at::Tensor cosine = at::empty({positions, half}, at::kDouble);
  at::Tensor sine = at::empty({positions, half}, at::kDouble);
  double* c = cosine.data_ptr<double>();
  double* s = sine.data_ptr<double>();
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies_[static_cast<std::size_t>(i)];
      c[p * half + i] = std::cos(angle);
      s[p * half + i] = std::sin(angle);
    }
  }
  cosine_ = cosine.to(type_);
  sine_ = sine.to(type_);
}

at::Tensor RotaryTable::cosine(std::int64_t first, std::int64_t count) const {
  return cosine_.narrow(0, first, count);
}

at::Tensor RotaryTable::sine(std::int64_t first, std::int64_t count) const {
  return sine_.narrow(0, first, count);
}

void rotate(at::Tensor& x, RotaryTable& table, const std::vector<std::int64_t>& sequence_offsets,
            std::int64_t first_position, std::int64_t head_dimension, Rotation rotation) {
  ZEROLOCK_INVARIANT(x.size(0) == sequence_offsets.back(), "the offsets cover all rows");
  const std::int64_t heads = x.size(1) / head_dimension;
  for (std::size_t s = 0; s + 1 < sequence_offsets.size(); ++s) {
    const std::int64_t begin = sequence_offsets[s];
    const std::int64_t rows = sequence_offsets[s + 1] - begin;
    table.grow(first_position + rows);
    const at::Tensor cosine = table.cosine(first_position, rows);
    const at::Tensor sine = table.sine(first_position, rows);
    if (is_dense_float(x) && is_dense_float(cosine)) {
      fused::rotate_halves(x.data_ptr<float>() + begin * x.size(1), cosine.data_ptr<float>(),
                           sine.data_ptr<float>(), rows, heads, head_dimension,
                           rotation == Rotation::forward ? 1.0F : -1.0F);
      continue;
    }
    const at::Tensor view = x.narrow(0, begin, rows).view({rows, heads, 2, head_dimension / 2});
    const at::Tensor c = cosine.unsqueeze(1);
    const at::Tensor q = rotation == Rotation::forward ? sine.unsqueeze(1) : sine.unsqueeze(1).neg();
    const at::Tensor a = view.select(2, 0).clone();
    const at::Tensor b = view.select(2, 1).clone();
    view.select(2, 0).copy_(a.mul(c).sub_(b.mul(q)));
    view.select(2, 1).copy_(b.mul(c).add_(a.mul(q)));
  }
}

}  // namespace zerolock
