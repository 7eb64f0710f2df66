#pragma once
/// Chooses the next token from a row of logits.

#include <ATen/ATen.h>

#include <cstdint>
#include <random>

#include "data/tokenizer.hpp"

namespace zerolock {

struct SamplingOptions {
  double temperature = 0;   // 0: the most likely token, always
  std::uint64_t top_k = 0;  // of the k most likely tokens only; 0: of all
  double top_p = 1;         // of the fewest most likely tokens whose probabilities reach p
  std::uint64_t seed = 0;
};

/// Seeded: the same logits in the same order give the same tokens on every machine with equal logits.
class TokenSampler {
 public:
  explicit TokenSampler(const SamplingOptions& options) : options_(options), generator_(options.seed) {}

  /// `logits`: floating point [vocabulary]. Ties go to the smaller id.
  TokenId choose(const at::Tensor& logits);

 private:
  /// In [0, 1), from 53 bits of the generator: std::uniform_real_distribution may differ between libraries.
  double uniform() { return static_cast<double>(generator_() >> 11) * 0x1.0p-53; }

  SamplingOptions options_;
  std::mt19937_64 generator_;
};

}  // namespace zerolock
