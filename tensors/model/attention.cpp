#include "tensors/model/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensors/base/error.hpp"
#include "tensors/model/fused_loops.hpp"
#include "tensors/model/tensor_kind.hpp"

extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda, const float* b,
                       const int* ldb, const float* beta, float* c, const int* ldc);

namespace zerolock {
namespace {

/// A row-major matrix inside a wider one: how a head lies in a packed tensor.
struct Matrix {
  float* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
};

enum class Transposed { none, left, right };

/// c = beta * c + op(a) op(b), row-major. BLAS is column-major, so it gets c^T = op(b)^T op(a)^T.
void multiply(const Matrix& a, const Matrix& b, float beta, const Matrix& c, Transposed transposed) {
  const char left = transposed == Transposed::left ? 'T' : 'N';
  const char right = transposed == Transposed::right ? 'T' : 'N';
  const int m = static_cast<int>(c.columns);
  const int n = static_cast<int>(c.rows);
  const int k = static_cast<int>(transposed == Transposed::left ? a.rows : a.columns);
  const int lda = static_cast<int>(b.stride);
  const int ldb = static_cast<int>(a.stride);
  const int ldc = static_cast<int>(c.stride);
  const float one = 1;
  sgemm_(&right, &left, &m, &n, &k, &one, b.data, &lda, a.data, &ldb, &beta, c.data, &ldc);
}

/// Head `head` of rows begin..begin+rows-1 of a packed tensor [*, heads * dimension].
Matrix head_of(const at::Tensor& packed, std::int64_t begin, std::int64_t rows, std::int64_t head,
               std::int64_t dimension) {
  const std::int64_t stride = packed.size(1);
  return {packed.data_ptr<float>() + begin * stride + head * dimension, rows, dimension, stride};
}

std::int64_t longest(const std::vector<std::int64_t>& offsets) {
  std::int64_t rows = 0;
  for (std::size_t s = 1; s < offsets.size(); ++s) rows = std::max(rows, offsets[s] - offsets[s - 1]);
  return rows;
}

float score_scale(const AttentionShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dimension)));
}

/// Calls with first and past-the-last row of each block of queries of a sequence, the last block first. A
/// block has all keys up to its own end, so that about half of the scores, which nobody may see, are not
/// computed.
template <class Work>
void for_each_query_block(std::int64_t rows, const Work& work) {
  for (std::int64_t end = rows; end > 0;) {
    const std::int64_t begin = (end - 1) / attention_block_rows * attention_block_rows;
    work(begin, end);
    end = begin;
  }
}

/// Queries of rows [query_begin, +queries) against keys of rows [key_begin, +keys), all heads, fp32.
void attend_dense(const at::Tensor& query, std::int64_t query_begin, std::int64_t queries,
                  const at::Tensor& key, const at::Tensor& value, std::int64_t key_begin, std::int64_t keys,
                  const AttentionShape& shape, float* scores, AttentionResult& result) {
  const std::int64_t group = shape.heads / shape.key_value_heads;
  const std::int64_t d = shape.head_dimension;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const Matrix q = head_of(query, query_begin, queries, h, d);
    const Matrix k = head_of(key, key_begin, keys, h / group, d);
    const Matrix v = head_of(value, key_begin, keys, h / group, d);
    const Matrix out = head_of(result.output, query_begin, queries, h, d);
    const Matrix p{scores, queries, keys, keys};
    multiply(q, k, 0, p, Transposed::right);
    fused::causal_softmax(scores, queries, keys, keys - queries, score_scale(shape),
                          result.logsumexp.data_ptr<float>() + query_begin * shape.heads + h, shape.heads);
    multiply(p, v, 0, out, Transposed::none);
  }
}

/// Where the gradients of one sequence's blocks are made.
struct BackwardScratch {
  float* probabilities;  // [block, keys]
  float* dscores;        // [block, keys]
  float* row_dot;        // [block]
};

/// Backward of attend_dense for rows [first, last) of the sequence that begins at row `begin`, and all keys
/// up to them. Key and value gradients are summed over the heads of a group, first head first; a block that
/// is not the sequence's last adds to those of the blocks behind it.
void attend_dense_backward(const at::Tensor& doutput, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const AttentionResult& forward, std::int64_t begin,
                           std::int64_t first, std::int64_t last, bool is_last_block,
                           const AttentionShape& shape, const BackwardScratch& scratch,
                           AttentionGradients& gradients) {
  const std::int64_t group = shape.heads / shape.key_value_heads;
  const std::int64_t d = shape.head_dimension;
  const std::int64_t queries = last - first;
  const float scale = score_scale(shape);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const Matrix q = head_of(query, begin + first, queries, h, d);
    const Matrix k = head_of(key, begin, last, h / group, d);
    const Matrix v = head_of(value, begin, last, h / group, d);
    const Matrix out = head_of(forward.output, begin + first, queries, h, d);
    const Matrix dout = head_of(doutput, begin + first, queries, h, d);
    const Matrix p{scratch.probabilities, queries, last, last};
    const Matrix ds{scratch.dscores, queries, last, last};
    const float beta = is_last_block && h % group == 0 ? 0.0F : 1.0F;
    multiply(q, k, 0, p, Transposed::right);
    fused::causal_probabilities(p.data, queries, last, first, scale,
                                forward.logsumexp.data_ptr<float>() + (begin + first) * shape.heads + h,
                                shape.heads);
    multiply(p, dout, beta, head_of(gradients.value, begin, last, h / group, d), Transposed::left);
    multiply(dout, v, 0, ds, Transposed::right);
    for (std::int64_t i = 0; i < queries; ++i) {
      scratch.row_dot[i] = fused::dot(dout.data + i * dout.stride, out.data + i * out.stride, d);
    }
    fused::causal_softmax_backward(ds.data, p.data, queries, last, first, scale, scratch.row_dot);
    multiply(ds, k, 0, head_of(gradients.query, begin + first, queries, h, d), Transposed::none);
    multiply(ds, q, beta, head_of(gradients.key, begin, last, h / group, d), Transposed::left);
  }
}

/// [rows, heads * d] of one sequence -> [key-value heads, group * rows, d]: the heads of a group under one
/// another.
at::Tensor grouped(const at::Tensor& packed, const AttentionShape& shape) {
  const std::int64_t group = packed.size(1) / shape.head_dimension / shape.key_value_heads;
  return packed.view({packed.size(0), shape.key_value_heads, group, shape.head_dimension})
      .permute({1, 2, 0, 3})
      .reshape({shape.key_value_heads, group * packed.size(0), shape.head_dimension});
}

/// The way back.
at::Tensor ungrouped(const at::Tensor& heads, std::int64_t rows) {
  const std::int64_t group = heads.size(1) / rows;
  return heads.view({heads.size(0), group, rows, heads.size(2)})
      .permute({2, 0, 1, 3})
      .reshape({rows, heads.size(0) * group * heads.size(2)});
}

/// Scaled scores [key-value heads, group, queries, keys] in the wide type, hidden ones at minus infinity.
at::Tensor masked_scores(const at::Tensor& query, const at::Tensor& key, std::int64_t queries,
                         const AttentionShape& shape, at::ScalarType wide) {
  const std::int64_t keys = key.size(1);
  at::Tensor scores = at::bmm(query, key.transpose(1, 2)).to(wide);
  scores = scores.view({query.size(0), -1, queries, keys})
               .mul_(1.0 / std::sqrt(static_cast<double>(shape.head_dimension)));
  const at::Tensor hidden =
      at::ones({queries, keys}, scores.options().dtype(at::kBool)).triu(keys - queries + 1);
  return scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// attend_dense for any type, on the rows of one sequence; writes output rows and log-sums.
void attend_any(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                const AttentionShape& shape, const at::Tensor& output, const at::Tensor& logsumexp) {
  const at::Tensor q = grouped(query, shape);
  const at::Tensor scores = masked_scores(q, grouped(key, shape), query.size(0), shape, wide_type(query));
  const at::Tensor sums = scores.logsumexp({3}, true);
  const at::Tensor p = scores.sub(sums).exp_().to(query.scalar_type());
  output.copy_(ungrouped(at::bmm(p.view({q.size(0), q.size(1), -1}), grouped(value, shape)), query.size(0)));
  logsumexp.copy_(sums.view({shape.heads, query.size(0)}).t());
}

void attend_any_backward(const at::Tensor& doutput, const at::Tensor& query, const at::Tensor& key,
                         const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
                         const AttentionShape& shape, AttentionGradients& into, std::int64_t begin) {
  const std::int64_t rows = query.size(0);
  const at::ScalarType type = query.scalar_type();
  const at::ScalarType wide = wide_type(query);
  const at::Tensor q = grouped(query, shape);
  const at::Tensor k = grouped(key, shape);
  const at::Tensor v = grouped(value, shape);
  const at::Tensor dout = grouped(doutput, shape);
  const at::Tensor sums = logsumexp.t().reshape({shape.key_value_heads, -1, rows, 1});
  const at::Tensor p = masked_scores(q, k, rows, shape, wide).sub_(sums).exp_().view({q.size(0), -1, rows});
  const at::Tensor dp = at::bmm(dout, v.transpose(1, 2)).to(wide);
  const at::Tensor row_dot = dout.to(wide).mul(grouped(output, shape).to(wide)).sum(2, true);
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dimension));
  const at::Tensor ds = dp.sub(row_dot).mul_(p).mul_(scale).to(type);
  into.query.narrow(0, begin, rows).copy_(ungrouped(at::bmm(ds, k), rows));
  into.key.narrow(0, begin, rows).copy_(ungrouped(at::bmm(ds.transpose(1, 2), q), rows));
  into.value.narrow(0, begin, rows).copy_(ungrouped(at::bmm(p.to(type).transpose(1, 2), dout), rows));
}

}  // namespace

AttentionResult attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const std::vector<std::int64_t>& sequence_offsets,
                                  const AttentionShape& shape) {
  ZEROLOCK_INVARIANT(query.size(0) == sequence_offsets.back(), "the offsets cover all rows");
  AttentionResult result{at::empty_like(query), at::empty({query.size(0), shape.heads}, wide_type(query))};
  const bool dense = is_dense_float(query) && is_dense_float(key) && is_dense_float(value);
  const std::int64_t most = dense ? longest(sequence_offsets) : 0;
  const at::Tensor scores = at::empty({std::min(most, attention_block_rows), most}, at::kFloat);
  for (std::size_t s = 0; s + 1 < sequence_offsets.size(); ++s) {
    const std::int64_t begin = sequence_offsets[s];
    const std::int64_t rows = sequence_offsets[s + 1] - begin;
    if (dense) {
      for_each_query_block(rows, [&](std::int64_t first, std::int64_t last) {
        attend_dense(query, begin + first, last - first, key, value, begin, last, shape,
                     scores.data_ptr<float>(), result);
      });
    } else {
      attend_any(query.narrow(0, begin, rows), key.narrow(0, begin, rows), value.narrow(0, begin, rows),
                 shape, result.output.narrow(0, begin, rows), result.logsumexp.narrow(0, begin, rows));
    }
  }
  return result;
}

at::Tensor attention_of_last_rows(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionShape& shape) {
  ZEROLOCK_INVARIANT(query.size(0) <= key.size(0), "the queries are the last of the keys' rows");
  AttentionResult result{at::empty_like(query), at::empty({query.size(0), shape.heads}, wide_type(query))};
  if (is_dense_float(query) && is_dense_float(key) && is_dense_float(value)) {
    const at::Tensor scores = at::empty({query.size(0), key.size(0)}, at::kFloat);
    attend_dense(query, 0, query.size(0), key, value, 0, key.size(0), shape, scores.data_ptr<float>(),
                 result);
  } else {
    attend_any(query, key, value, shape, result.output, result.logsumexp);
  }
  return result.output;
}

AttentionGradients attention_backward(const at::Tensor& doutput, const at::Tensor& query,
                                      const at::Tensor& key, const at::Tensor& value,
                                      const AttentionResult& forward,
                                      const std::vector<std::int64_t>& sequence_offsets,
                                      const AttentionShape& shape) {
  AttentionGradients gradients{at::empty_like(query), at::empty_like(key), at::empty_like(value)};
  const bool dense =
      is_dense_float(query) && is_dense_float(key) && is_dense_float(value) && is_dense_float(doutput);
  const std::int64_t most = dense ? longest(sequence_offsets) : 0;
  const std::int64_t block = std::min(most, attention_block_rows);
  const at::Tensor buffer = at::empty({2 * block * most + block}, at::kFloat);
  float* numbers = buffer.data_ptr<float>();
  const BackwardScratch scratch{numbers, numbers + block * most, numbers + 2 * block * most};
  for (std::size_t s = 0; s + 1 < sequence_offsets.size(); ++s) {
    const std::int64_t begin = sequence_offsets[s];
    const std::int64_t rows = sequence_offsets[s + 1] - begin;
    if (dense) {
      for_each_query_block(rows, [&](std::int64_t first, std::int64_t last) {
        attend_dense_backward(doutput, query, key, value, forward, begin, first, last, last == rows, shape,
                              scratch, gradients);
      });
      continue;
    }
    const auto part = [&](const at::Tensor& packed) { return packed.narrow(0, begin, rows); };
    attend_any_backward(part(doutput), part(query), part(key), part(value), part(forward.output),
                        part(forward.logsumexp), shape, gradients, begin);
  }
  return gradients;
}

}  // namespace zerolock
