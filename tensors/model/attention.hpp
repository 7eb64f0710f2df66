#pragma once
/// Causal grouped-query attention over packed sequences. Probabilities are never kept: backward makes them
/// again from the scores and each row's log-sum, so memory grows with the length of a sequence and not with
/// its square (as in FlashAttention, Dao et al. 2022). Scores are made for a block of queries at a time, each
/// with the keys up to the block's end.

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace zerolock {

/// Queries of a block, in fp32.
inline constexpr std::int64_t attention_block_rows = 128;

/// Scores of one head that are computed for a sequence of so many tokens, in fp32.
constexpr std::int64_t attention_scores(std::int64_t tokens) {
  std::int64_t scores = 0;
  for (std::int64_t first = 0; first < tokens; first += attention_block_rows) {
    const std::int64_t last = std::min(tokens, first + attention_block_rows);
    scores += (last - first) * last;
  }
  return scores;
}

/// Query head h uses key-value head h / (heads / key_value_heads).
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dimension = 0;
};

/// What attention gives: output [rows, heads * head_dimension] and the log-sums [rows, heads], fp32 (fp64 for
/// fp64).
struct AttentionResult {
  at::Tensor output;
  at::Tensor logsumexp;
};

/// query [rows, heads * d], key and value [rows, key_value_heads * d], rotated already. Sequence s is rows
/// offsets[s]..offsets[s+1]-1 and sees nothing of the others.
AttentionResult attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const std::vector<std::int64_t>& sequence_offsets,
                                  const AttentionShape& shape);

/// One sequence whose queries are its last rows: key and value have more rows than query.
at::Tensor attention_of_last_rows(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionShape& shape);

struct AttentionGradients {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// Gradients of attention_forward's inputs, given that of its output.
AttentionGradients attention_backward(const at::Tensor& doutput, const at::Tensor& query,
                                      const at::Tensor& key, const at::Tensor& value,
                                      const AttentionResult& forward,
                                      const std::vector<std::int64_t>& sequence_offsets,
                                      const AttentionShape& shape);

}  // namespace zerolock
