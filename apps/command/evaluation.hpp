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

struct EvaluationPlan {
  std::uint64_t batch = 8;    // sequences of a forward pass
  std::uint64_t threads = 1;  // each with a model of its own
  std::int64_t layers = -1;   // read out after that many layers; -1 for all
  /// The answer of each class, in the order of Dataset::labels; empty: no classes.
  std::vector<std::vector<TokenId>> label_answers;
};

struct EvaluationResult {
  std::uint64_t examples = 0;
  std::uint64_t supervised_tokens = 0;
  double nll = 0;                   // mean of -log p over all supervised tokens, full vocabulary
  std::optional<double> accuracy;   // share of rows whose class has the most likely answer
  std::optional<double> nll_label;  // mean of -log softmax over the classes' answers, of the row's class
};

/// Makes the model that one thread uses; called in that thread.
using ModelFactory = std::function<std::unique_ptr<CausalModel>()>;

/// An answer of several tokens is as likely as the product over its tokens. Batches and sums do not depend on
/// the number of threads, so neither does the result. Throws what the models throw.
EvaluationResult evaluate(const Dataset& dataset, const EvaluationPlan& plan, const ModelFactory& make_model);

}  // namespace zerolock
