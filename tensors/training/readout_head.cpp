#include "tensors/training/readout_head.hpp"

#include <unordered_map>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {
namespace {

/// The frozen head: final norm, then all rows of the readout matrix or some of them.
class FrozenHead final : public ReadoutHead {
 public:
  FrozenHead(RmsNorm norm, OutputMatrix outputs,
             std::unordered_map<std::int64_t, std::int64_t> output_of_token)
      : norm_(std::move(norm)), outputs_(std::move(outputs)), output_of_token_(std::move(output_of_token)) {}

  at::Tensor features(const at::Tensor& hidden, HeadTape* tape) const override {
    if (tape == nullptr) return rms_norm_forward(norm_, hidden, nullptr);
    tape->hidden = hidden;
    return rms_norm_forward(norm_, hidden, &tape->inverse_rms);
  }

  at::Tensor backward(const at::Tensor& dfeatures, const HeadTape& tape) override {
    at::Tensor dhidden = at::zeros_like(tape.hidden);
    rms_norm_backward(norm_, dfeatures, tape.hidden, tape.inverse_rms, dhidden);
    return dhidden;
  }

  [[nodiscard]] const OutputMatrix& outputs() const override { return outputs_; }

  [[nodiscard]] std::int64_t output_of(std::int64_t token) const override {
    if (!outputs_.gathered()) {
      if (token >= 0 && token < outputs_.outputs()) return token;
      throw InputError("target token " + std::to_string(token),
                       "outside the model's vocabulary of " + std::to_string(outputs_.outputs()));
    }
    const auto found = output_of_token_.find(token);
    if (found != output_of_token_.end()) return found->second;
    throw InputError(
        "target token " + std::to_string(token),
        "supervised, but not one of the restricted head's " + std::to_string(outputs_.outputs()) + " tokens");
  }

  [[nodiscard]] std::size_t bytes() const override { return outputs_.bytes() + norm_.weight.nbytes(); }

  [[nodiscard]] double operations_per_row() const override {
    return 4.0 * static_cast<double>(outputs_.outputs()) * static_cast<double>(outputs_.features());
  }

 private:
  RmsNorm norm_;
  OutputMatrix outputs_;
  std::unordered_map<std::int64_t, std::int64_t> output_of_token_;  // of a restricted head
};

}  // namespace

std::unique_ptr<ReadoutHead> make_readout_head(const ModelFiles& model, const LossSettings& settings,
                                               at::ScalarType compute_type,
                                               const WeightTransform& transform) {
  const MemoryScope scope(MemoryComponent::weights);
  RmsNorm norm{model.tensor("model.norm.weight").expand(compute_type), model.config().rms_norm_epsilon};
  if (settings.head == HeadKind::fixed) {
    StoredTensor rows = model.head();
    if (transform) rows = transform(rows);
    return std::make_unique<FrozenHead>(std::move(norm), OutputMatrix(std::move(rows)),
                                        std::unordered_map<std::int64_t, std::int64_t>{});
  }
  std::unordered_map<std::int64_t, std::int64_t> output_of_token;
  for (const std::int64_t token : settings.restricted_tokens) {
    const auto output = static_cast<std::int64_t>(output_of_token.size());
    if (!output_of_token.emplace(token, output).second) {
      throw InputError("restricted head", "token id " + std::to_string(token) + " is given twice");
    }
  }
  return std::make_unique<FrozenHead>(std::move(norm),
                                      OutputMatrix(model.head(), settings.restricted_tokens, compute_type),
                                      std::move(output_of_token));
}

}  // namespace zerolock
