#include "tensors/model/fused_loops.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

// One clone for every x86-64 level; the dynamic linker takes the best that the CPU has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define ZEROLOCK_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ZEROLOCK_VECTOR_CLONES
#endif

namespace zerolock::fused {
namespace {

/// e^x to about 1 ulp over the normal range; 0 below it, NaN for NaN. Branch-free, so that loops over it
/// vectorise. Reduction and polynomial as in Cephes' expf.
inline __attribute__((always_inline)) float exponential(float x) {
  constexpr float round_bias = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float bounded = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  const float n = (bounded * 1.44269504088896341F + round_bias) - round_bias;
  const float r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // The low bits of n + bias hold the integer n: shifted into the exponent they make 2^n.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(n + round_bias) + 127U;
  const float power = std::bit_cast<float>(bits << 23U);
  return x < -87.0F ? 0.0F : p * power;
}

/// Long sums are taken in fp32 over pieces of this many elements, and the pieces added in fp64.
constexpr std::int64_t sum_piece = 512;

inline __attribute__((always_inline)) float largest(const float* z, std::int64_t count) {
  float top = z[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t j = 0; j < count; ++j) top = z[j] > top ? z[j] : top;
  return top;
}

inline __attribute__((always_inline)) double exponential_sum(const float* z, std::int64_t count,
                                                             float shift) {
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += sum_piece) {
    const std::int64_t end = std::min(count, begin + sum_piece);
    float piece = 0;
#pragma omp simd reduction(+ : piece)
    for (std::int64_t j = begin; j < end; ++j) piece += exponential(z[j] - shift);
    total += piece;
  }
  return total;
}

}  // namespace

ZEROLOCK_VECTOR_CLONES
void rms_norm(const float* x, const float* weight, std::int64_t rows, std::int64_t width, double epsilon,
              float* y, float* inverse_rms) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    float* out = y + r * width;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t j = 0; j < width; ++j) squares += row[j] * row[j];
    const float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(squares) / width + epsilon));
    inverse_rms[r] = factor;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) out[j] = row[j] * factor * weight[j];
  }
}

ZEROLOCK_VECTOR_CLONES
void rms_norm_again(const float* x, const float* weight, const float* inverse_rms, std::int64_t rows,
                    std::int64_t width, float* y) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    float* out = y + r * width;
    const float factor = inverse_rms[r];
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) out[j] = row[j] * factor * weight[j];
  }
}

ZEROLOCK_VECTOR_CLONES
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* inverse_rms,
                       std::int64_t rows, std::int64_t width, float* dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* gradient = dy + r * width;
    const float* row = x + r * width;
    float* out = dx + r * width;
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (std::int64_t j = 0; j < width; ++j) along += gradient[j] * weight[j] * row[j];
    const float factor = inverse_rms[r];
    const float back = factor * factor * factor * along / static_cast<float>(width);
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) out[j] += factor * gradient[j] * weight[j] - back * row[j];
  }
}

ZEROLOCK_VECTOR_CLONES
void rotate_halves(float* x, const float* cosine, const float* sine, std::int64_t rows, std::int64_t heads,
                   std::int64_t head_dimension, float direction) {
  const std::int64_t half = head_dimension / 2;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* c = cosine + r * half;
    const float* s = sine + r * half;
    for (std::int64_t h = 0; h < heads; ++h) {
      float* a = x + (r * heads + h) * head_dimension;
      float* b = a + half;
#pragma omp simd
      for (std::int64_t j = 0; j < half; ++j) {
        const float first = a[j];
        const float second = b[j];
        a[j] = first * c[j] - second * (direction * s[j]);
        b[j] = second * c[j] + first * (direction * s[j]);
      }
    }
  }
}

ZEROLOCK_VECTOR_CLONES
void swiglu(const float* gate, const float* up, std::int64_t count, float* out) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) out[j] = gate[j] / (1.0F + exponential(-gate[j])) * up[j];
}

ZEROLOCK_VECTOR_CLONES
void swiglu_backward(const float* dout, std::int64_t count, float* gate, float* up) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const float sigmoid = 1.0F / (1.0F + exponential(-gate[j]));
    const float silu = gate[j] * sigmoid;
    const float dsilu = sigmoid * (1.0F + gate[j] * (1.0F - sigmoid));
    gate[j] = dout[j] * up[j] * dsilu;
    up[j] = dout[j] * silu;
  }
}

ZEROLOCK_VECTOR_CLONES
void causal_softmax(float* scores, std::int64_t queries, std::int64_t keys, std::int64_t first_position,
                    float scale, float* logsumexp, std::int64_t stride) {
  for (std::int64_t i = 0; i < queries; ++i) {
    float* row = scores + i * keys;
    const std::int64_t visible = std::min(keys, first_position + i + 1);
    const float top = largest(row, visible);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < visible; ++j) {
      row[j] = exponential(scale * (row[j] - top));
      sum += row[j];
    }
    const float factor = 1.0F / sum;
#pragma omp simd
    for (std::int64_t j = 0; j < visible; ++j) row[j] *= factor;
    std::fill(row + visible, row + keys, 0.0F);
    logsumexp[i * stride] = scale * top + std::log(sum);
  }
}

ZEROLOCK_VECTOR_CLONES
void causal_probabilities(float* scores, std::int64_t queries, std::int64_t keys, std::int64_t first_position,
                          float scale, const float* logsumexp, std::int64_t stride) {
  for (std::int64_t i = 0; i < queries; ++i) {
    float* row = scores + i * keys;
    const std::int64_t visible = std::min(keys, first_position + i + 1);
    const float sum = logsumexp[i * stride];
#pragma omp simd
    for (std::int64_t j = 0; j < visible; ++j) row[j] = exponential(scale * row[j] - sum);
    std::fill(row + visible, row + keys, 0.0F);
  }
}

ZEROLOCK_VECTOR_CLONES
void causal_softmax_backward(float* dprobabilities, const float* probabilities, std::int64_t queries,
                             std::int64_t keys, std::int64_t first_position, float scale,
                             const float* row_dot) {
  for (std::int64_t i = 0; i < queries; ++i) {
    float* row = dprobabilities + i * keys;
    const float* p = probabilities + i * keys;
    const std::int64_t visible = std::min(keys, first_position + i + 1);
    const float subtract = row_dot[i];
#pragma omp simd
    for (std::int64_t j = 0; j < visible; ++j) row[j] = scale * p[j] * (row[j] - subtract);
    std::fill(row + visible, row + keys, 0.0F);
  }
}

ZEROLOCK_VECTOR_CLONES
float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) sum += a[j] * b[j];
  return sum;
}

ZEROLOCK_VECTOR_CLONES
double log_sum_exp(const float* z, std::int64_t count) {
  const float top = largest(z, count);
  return top + std::log(exponential_sum(z, count, top));
}

ZEROLOCK_VECTOR_CLONES
double cross_entropy_row(float* z, std::int64_t count, std::int64_t target, double weight) {
  const float top = largest(z, count);
  const double sum = exponential_sum(z, count, top);
  const double loss = top + std::log(sum) - z[target];
  const float factor = static_cast<float>(weight / sum);
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) z[j] = factor * exponential(z[j] - top);
  z[target] -= static_cast<float>(weight);
  return loss;
}

ZEROLOCK_VECTOR_CLONES
RowLoss consistent_loss_row(float* z, float* previous, std::int64_t count, std::int64_t target,
                            double task_weight, double consistency_weight, bool reverse) {
  // Logits minus their log sum are log probabilities; taken relative to the largest logit they keep their
  // digits.
  const float top_p = largest(z, count);
  const float top_q = largest(previous, count);
  const double sum_p = std::log(exponential_sum(z, count, top_p));
  const double sum_q = std::log(exponential_sum(previous, count, top_q));
  RowLoss loss;
  loss.task = top_p + sum_p - z[target];
  const float shift_p = static_cast<float>(sum_p);
  const float shift_q = static_cast<float>(sum_q);
  const float task = static_cast<float>(task_weight);
  const float consistency = static_cast<float>(consistency_weight);
  for (std::int64_t begin = 0; begin < count; begin += sum_piece) {
    const std::int64_t end = std::min(count, begin + sum_piece);
    float piece = 0;
    if (reverse) {
#pragma omp simd reduction(+ : piece)
      for (std::int64_t j = begin; j < end; ++j) {
        const float log_p = (z[j] - top_p) - shift_p;
        const float log_q = (previous[j] - top_q) - shift_q;
        const float p = exponential(log_p);
        const float q = exponential(log_q);
        piece += q * (log_q - log_p);
        z[j] = task * p + consistency * (p - q);
      }
    } else {
#pragma omp simd reduction(+ : piece)
      for (std::int64_t j = begin; j < end; ++j) {
        const float log_p = (z[j] - top_p) - shift_p;
        const float log_q = (previous[j] - top_q) - shift_q;
        const float p = exponential(log_p);
        piece += p * (log_p - log_q);
        z[j] = p;
        previous[j] = log_p - log_q;
      }
    }
    loss.consistency += piece;
  }
  if (!reverse) {
    const float mean = static_cast<float>(loss.consistency);
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) z[j] *= task + consistency * (previous[j] - mean);
  }
  z[target] -= task;
  return loss;
}

}  // namespace zerolock::fused
