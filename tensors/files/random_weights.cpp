#include "tensors/files/random_weights.hpp"

#include <ATen/ATen.h>

#include <map>
#include <random>
#include <string>

#include "tensors/base/sha256.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

constexpr std::int64_t quantile_count = 65536;  // a draw takes 16 bits

/// bfloat16 [65536]: the middles of as many equally likely parts of the distribution.
at::Tensor normal_quantiles(double standard_deviation) {
  const at::Tensor middles =
      at::arange(quantile_count, at::kDouble).add_(0.5).div_(static_cast<double>(quantile_count));
  return at::special_ndtri(middles).mul_(standard_deviation).to(at::kBFloat16);
}

/// Seeds of different tensors have nothing in common.
std::uint64_t seed_of(const std::string& name, std::uint64_t seed) {
  return std::stoull(sha256_of(std::to_string(seed) + " " + name).substr(0, 16), nullptr, 16);
}

at::Tensor drawn(const std::vector<std::int64_t>& shape, const at::Tensor& quantiles, std::uint64_t seed) {
  at::Tensor values = at::empty(shape, at::kBFloat16);
  auto* const value = values.data_ptr<at::BFloat16>();
  const auto* const table = quantiles.data_ptr<at::BFloat16>();
  std::mt19937_64 engine(seed);
  std::uint64_t bits = 0;
  for (std::int64_t index = 0; index < values.numel(); ++index) {
    bits = index % 4 == 0 ? engine() : bits >> 16U;
    value[index] = table[bits & 0xFFFFU];
  }
  return values;
}

}  // namespace

void write_random_weights(const std::filesystem::path& file, const ModelConfig& config,
                          double standard_deviation, std::uint64_t seed) {
  const auto shapes = model_tensor_shapes(config);
  std::map<std::string, TensorOutline> outlines;
  for (const auto& [name, shape] : shapes) outlines[name] = {at::kBFloat16, shape};
  const at::Tensor quantiles = normal_quantiles(standard_deviation);
  const auto make = [&](const std::string& name) {
    const std::vector<std::int64_t>& shape = shapes.at(name);
    if (name.ends_with("norm.weight")) return at::ones(shape, at::kBFloat16);
    return drawn(shape, quantiles, seed_of(name, seed));
  };
  write_safetensors(file, outlines, make, {{"format", "pt"}});  // transformers asks for the format
}

std::uint64_t random_weights_bytes(const ModelConfig& config) {
  std::uint64_t bytes = 0;
  for (const auto& [name, shape] : model_tensor_shapes(config)) {
    std::uint64_t elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
    bytes += elements * sizeof(at::BFloat16);
  }
  return bytes;
}

}  // namespace zerolock
