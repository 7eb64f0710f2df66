#include "apps/command/token_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {

TokenId TokenSampler::choose(const at::Tensor& logits) {
  const at::Tensor row = logits.to(at::kDouble).contiguous();
  const double* values = row.data_ptr<double>();
  const auto count = static_cast<std::size_t>(row.numel());
  ZEROLOCK_INVARIANT(count > 0, "there is a token to choose");
  if (options_.temperature == 0) return std::max_element(values, values + count) - values;

  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto likelier = [values](std::size_t left, std::size_t right) {
    return values[left] != values[right] ? values[left] > values[right] : left < right;
  };
  const std::size_t kept = options_.top_k > 0 ? std::min<std::size_t>(options_.top_k, count) : count;
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  order.resize(kept);

  std::vector<double> weights;
  double total = 0;
  for (const std::size_t token : order) {
    weights.push_back(std::exp((values[token] - values[order.front()]) / options_.temperature));
    total += weights.back();
  }
  // The nucleus: tokens until their probabilities reach top_p, at least one.
  double nucleus = 0;
  std::size_t size = 0;
  while (size < weights.size() && nucleus < options_.top_p * total) nucleus += weights[size++];
  size = std::max<std::size_t>(size, 1);
  if (nucleus == 0) nucleus = weights.front();

  double point = uniform() * nucleus;
  for (std::size_t i = 0; i + 1 < size; ++i) {
    if (point < weights[i]) return static_cast<TokenId>(order[i]);
    point -= weights[i];
  }
  return static_cast<TokenId>(order[size - 1]);
}

}  // namespace zerolock
