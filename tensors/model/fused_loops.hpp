#pragma once
/// The row-wise operations of a decoder and of its loss as single passes over fp32 memory: what LibTorch
/// would do in several passes with a temporary each. Plain loops that the compiler vectorises for the CPU
/// they run on; sums are taken in a fixed order, so equal inputs give equal bits on one machine.
///
/// All matrices are dense and row-major. The callers fall back to ATen for other types; tests compare the
/// two.

#include <cstdint>

namespace zerolock::fused {

/// y[r,:] = x[r,:] * inverse_rms[r] * weight, inverse_rms[r] = 1 / sqrt(mean(x[r,:]^2) + epsilon).
void rms_norm(const float* x, const float* weight, std::int64_t rows, std::int64_t width, double epsilon,
              float* y, float* inverse_rms);
/// y[r,:] = x[r,:] * inverse_rms[r] * weight with the factors of an earlier rms_norm.
void rms_norm_again(const float* x, const float* weight, const float* inverse_rms, std::int64_t rows,
                    std::int64_t width, float* y);
/// Adds the gradient of rms_norm's input to dx.
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* inverse_rms,
                       std::int64_t rows, std::int64_t width, float* dx);

/// Rotates the halves of every head in place: (a, b) -> (a cos - b s sin, b cos + a s sin), s = direction.
/// Row r uses row r of cosine and sine, [rows, head_dimension / 2]; direction -1 undoes direction 1.
void rotate_halves(float* x, const float* cosine, const float* sine, std::int64_t rows, std::int64_t heads,
                   std::int64_t head_dimension, float direction);

/// out = silu(gate) * up, element by element.
void swiglu(const float* gate, const float* up, std::int64_t count, float* out);
/// Replaces gate and up by their gradients, given the gradient of swiglu's output.
void swiglu_backward(const float* dout, std::int64_t count, float* gate, float* up);

/// Row i of the scores [queries, keys] belongs to position first_position + i and sees keys 0..first_position
/// + i. Replaces visible scores by softmax(scale * score), the others by 0, and writes each row's log of the
/// sum of exponentials to logsumexp[i * stride].
void causal_softmax(float* scores, std::int64_t queries, std::int64_t keys, std::int64_t first_position,
                    float scale, float* logsumexp, std::int64_t stride);
/// Scores to the same probabilities with the sums of an earlier causal_softmax.
void causal_probabilities(float* scores, std::int64_t queries, std::int64_t keys, std::int64_t first_position,
                          float scale, const float* logsumexp, std::int64_t stride);
/// Replaces the gradient of the probabilities by that of the scores: scale * p * (dp - row_dot[i]), where
/// row_dot is the inner product of a row's output with the output's gradient. Hidden positions become 0.
void causal_softmax_backward(float* dprobabilities, const float* probabilities, std::int64_t queries,
                             std::int64_t keys, std::int64_t first_position, float scale,
                             const float* row_dot);

/// Inner product of two vectors.
float dot(const float* a, const float* b, std::int64_t count);

/// log(sum(exp(z))).
double log_sum_exp(const float* z, std::int64_t count);

/// Cross-entropy of one row of logits: returns -log softmax(z)[target] and replaces z by
/// weight * (softmax(z) - onehot(target)).
double cross_entropy_row(float* z, std::int64_t count, std::int64_t target, double weight);

/// Both terms of one row's local loss.
struct RowLoss {
  double task = 0;
  double consistency = 0;
};

/// One row with p = softmax(z), q = softmax(previous): the cross-entropy of p and KL(p || q), or KL(q || p)
/// if `reverse`. Replaces z by the gradient of task_weight * task + consistency_weight * consistency with
/// respect to z; `previous` is overwritten.
RowLoss consistent_loss_row(float* z, float* previous, std::int64_t count, std::int64_t target,
                            double task_weight, double consistency_weight, bool reverse);

}  // namespace zerolock::fused
