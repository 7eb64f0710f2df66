#pragma once
/// How well a model predicts the rows of a data set.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.hpp"
#include "data/tokenizer.hpp"
#include "tensors/model/causal_model.hpp"

namespace zerolock {

/// A readout other than the model's own. Used by one thread at a time.
class EvaluationReadout {
 public:
  virtual ~EvaluationReadout() = default;
  /// hidden [n, width] -> fp64 [n, outputs], over its own outputs.
  virtual at::Tensor log_probabilities(const at::Tensor& hidden) = 0;
  /// Throws InputError for a token without one.
  [[nodiscard]] virtual std::int64_t output_of(TokenId token) const = 0;
};

struct EvaluationPlan {
  std::uint64_t batch = 8;               // sequences of a forward pass
  std::uint64_t threads = 1;             // each with a model of its own
  std::int64_t layers = -1;              // read out after that many layers; -1 for all
  EvaluationReadout* readout = nullptr;  // with one thread only; null: the model's
  /// The answer of each class, in the order of Dataset::labels; empty: no classes.
  std::vector<std::vector<TokenId>> label_answers;
};

struct EvaluationResult {
  std::uint64_t examples = 0;
  std::uint64_t supervised_tokens = 0;
  double nll = 0;                   // mean of -log p over all supervised tokens and all outputs
  std::optional<double> accuracy;   // share of rows whose class has the most likely answer
  std::optional<double> nll_label;  // mean of -log softmax over the classes' answers, of the row's class
};

/// Makes the model that one thread uses; called in that thread.
using ModelFactory = std::function<std::unique_ptr<CausalModel>()>;

/// An answer of several tokens is as likely as the product over its tokens. Batches and sums do not depend on
/// the number of threads, so neither does the result. Throws what the models throw.
EvaluationResult evaluate(const Dataset& dataset, const EvaluationPlan& plan, const ModelFactory& make_model);

}  // namespace zerolock
