#include "tensors/training/bottleneck_head.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/frozen_head.hpp"

namespace zerolock {
namespace {

struct Factors {
  at::Tensor down;  // [rank, width]
  at::Tensor up;    // [outputs, rank]
};

/// By the eigenvectors of W^T W [width, width], which is summed tile by tile in fp64: W never stands
/// expanded.
Factors truncated_factors(const OutputMatrix& matrix, std::int64_t rank, at::ScalarType type) {
  ExpansionScratch scratch(type);
  const std::int64_t width = matrix.features();
  at::Tensor gram = at::zeros({width, width}, at::kDouble);
  matrix.for_each_tile(scratch, [&](std::int64_t, const at::Tensor& tile) {
    const at::Tensor rows = tile.to(type);
    gram.add_(at::mm(rows.t(), rows));
  });
  const at::Tensor eigenvectors = std::get<1>(at::linalg_eigh(gram));  // columns, eigenvalues ascending
  at::Tensor top = eigenvectors.narrow(1, width - rank, rank).flip(1);
  // An eigenvector's sign is arbitrary: its largest component shall be positive.
  top = top.mul(top.gather(0, top.abs().argmax(0, true)).sign());
  const at::Tensor values = at::mm(gram, top).mul_(top).sum(0).clamp_min_(0).sqrt_();
  const at::Tensor root = values.sqrt();
  Factors factors{top.mul(root).t().contiguous().to(type), at::empty({matrix.outputs(), rank}, type)};
  const at::Tensor right =
      top.div(root.clamp_min(std::sqrt(values.max().item<double>()) * 1e-7)).to(type).contiguous();
  matrix.for_each_tile(scratch, [&](std::int64_t first, const at::Tensor& tile) {
    factors.up.narrow(0, first, tile.size(0)).copy_(at::mm(tile.to(type), right));
  });
  return factors;
}

void take_over(const std::map<std::string, at::Tensor>& tensors, TrainableTensor& into) {
  const auto found = tensors.find(into.name);
  if (found == tensors.end()) return;
  if (found->second.sizes() != into.value.sizes()) {
    throw InputError(into.name, "has another shape than this head's");
  }
  into.value.copy_(found->second);
}

}  // namespace

BottleneckHead::BottleneckHead(std::string name, const HeadSettings& settings, RmsNorm norm,
                               at::ScalarType compute_type, const TokenRows& rows)
    : norm_(std::move(norm)),
      compute_type_(compute_type),
      trained_(settings.bottleneck_trained),
      index_(rows.index),
      outputs_(at::Tensor()) {
  const std::int64_t rank_max = std::min(rows.matrix.features(), rows.matrix.outputs());
  if (settings.bottleneck_rank > rank_max) {
    throw InputError("rank of a bottleneck head", std::to_string(settings.bottleneck_rank) +
                                                      " asked for; width and outputs allow 1 to " +
                                                      std::to_string(rank_max));
  }
  const MemoryScope scope(trained_ ? MemoryComponent::optimizer : MemoryComponent::weights);
  Factors factors = truncated_factors(rows.matrix, settings.bottleneck_rank, norm_.weight.scalar_type());
  down_ = {name + ".D", std::move(factors.down), at::Tensor()};
  up_ = {name + ".U", std::move(factors.up), at::Tensor()};
  outputs_ = OutputMatrix(up_.value);
  if (!trained_) return;
  down_.gradient = at::zeros_like(down_.value);
  up_.gradient = at::zeros_like(up_.value);
}

at::Tensor BottleneckHead::features(const at::Tensor& hidden, HeadTape* tape) const {
  const at::Tensor wide = hidden.to(norm_.weight.scalar_type());
  at::Tensor inverse_rms;
  at::Tensor normed = rms_norm_forward(norm_, wide, &inverse_rms);
  at::Tensor result = at::mm(normed, down_.value.t());
  if (tape != nullptr) *tape = {wide, std::move(inverse_rms), {std::move(normed)}};
  return result;
}

at::Tensor BottleneckHead::backward(const at::Tensor& dfeatures, const HeadTape& tape) {
  if (trained_) down_.gradient.addmm_(dfeatures.t(), tape.more[0]);
  at::Tensor dhidden = at::zeros_like(tape.hidden);
  rms_norm_backward(norm_, at::mm(dfeatures, down_.value), tape.hidden, tape.inverse_rms, dhidden);
  return dhidden.to(compute_type_);
}

void BottleneckHead::outputs_backward(const at::Tensor& dlogits, const at::Tensor& features) {
  up_.gradient.addmm_(dlogits.t(), features);
}

std::vector<TrainableTensor> BottleneckHead::trainable() {
  return trained_ ? std::vector<TrainableTensor>{down_, up_} : std::vector<TrainableTensor>{};
}

void BottleneckHead::export_fitted(std::map<std::string, at::Tensor>& tensors) const {
  if (trained_) return;
  tensors[down_.name] = down_.value.clone();
  tensors[up_.name] = up_.value.clone();
}

void BottleneckHead::import_fitted(const std::map<std::string, at::Tensor>& tensors) {
  if (trained_) return;
  take_over(tensors, down_);
  take_over(tensors, up_);
}

std::size_t BottleneckHead::bytes() const {
  return norm_.weight.nbytes() + (trained_ ? 2 : 1) * (down_.value.nbytes() + up_.value.nbytes());
}

double BottleneckHead::operations_per_row() const {
  const double elements = static_cast<double>(down_.value.numel() + up_.value.numel());
  return (trained_ ? 6.0 : 4.0) * elements;
}

}  // namespace zerolock
