#include "tensors/model/lora.hpp"

#include <cmath>
#include <random>
#include <utility>

namespace zerolock {
namespace {

/// FNV-1a: a hash that is the same on every machine and standard library.
std::uint64_t hash_of(const std::string& text, std::uint64_t seed) {
  std::uint64_t hash = 14695981039346656037ULL ^ (seed * 0x9E3779B97F4A7C15ULL);
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

/// sum += left * right, where the sum may be of a wider type than the factors.
void add_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right, double scale) {
  if (sum.scalar_type() == left.scalar_type()) {
    sum.addmm_(left, right, 1, scale);
  } else {
    sum.add_(at::mm(left, right).to(sum.scalar_type()), scale);
  }
}

/// sum += left^T * right, for the rows of one micro-batch after the other.
void add_products(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right, double scale,
                  const RowParts& parts) {
  if (parts.empty()) add_product(sum, left.t(), right, scale);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::int64_t rows = parts[i + 1] - parts[i];
    add_product(sum, left.narrow(0, parts[i], rows).t(), right.narrow(0, parts[i], rows), scale);
  }
}

}  // namespace

at::Tensor seeded_uniform(const std::string& name, std::uint64_t seed, at::IntArrayRef shape, double bound,
                          at::ScalarType type) {
  std::mt19937_64 generator(hash_of(name, seed));
  at::Tensor numbers = at::empty(shape, at::kFloat);
  float* values = numbers.data_ptr<float>();
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;  // [0, 1)
    values[i] = static_cast<float>((2 * unit - 1) * bound);
  }
  return numbers.to(type);
}

LoraPair make_lora_pair(std::string name, std::int64_t rank, std::int64_t in, std::int64_t out, double scale,
                        std::uint64_t seed, at::ScalarType type) {
  LoraPair pair;
  pair.name = std::move(name);
  pair.scale = scale;
  pair.a = seeded_uniform(pair.a_name(), seed, {rank, in}, 1.0 / std::sqrt(static_cast<double>(in)), type);
  pair.b = at::zeros({out, rank}, type);
  pair.a_gradient = at::zeros_like(pair.a);
  pair.b_gradient = at::zeros_like(pair.b);
  return pair;
}

at::Tensor lora_forward(const LoraPair& lora, const at::Tensor& x, at::Tensor& y) {
  at::Tensor projected = at::mm(x, lora.a.to(x.scalar_type()).t());
  y.addmm_(projected, lora.b.to(x.scalar_type()).t(), 1, lora.scale);
  return projected;
}

void lora_backward(LoraPair& lora, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& projected,
                   const at::Tensor& dx, const RowParts& parts) {
  add_products(lora.b_gradient, dy, projected, lora.scale, parts);
  at::Tensor dprojected = at::mm(dy, lora.b.to(dy.scalar_type()));
  dprojected.mul_(lora.scale);
  add_products(lora.a_gradient, dprojected, x, 1, parts);
  if (dx.defined()) dx.addmm_(dprojected, lora.a.to(dy.scalar_type()));
}

}  // namespace zerolock
