#include "apps/command/evaluation.hpp"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "data/batch_plan.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

/// What one row contributes; kept for each row so that sums run in the rows' order.
struct RowScore {
  double log_likelihood = 0;  // of its supervised tokens
  std::uint64_t tokens = 0;
  std::vector<double> labels;  // log-likelihood of each class's answer
};

/// The row's prompt with another answer.
Example with_answer(const Example& row, const std::vector<TokenId>& answer) {
  const std::size_t begin = row.answer_begin();
  Example example;
  example.tokens.assign(row.tokens.begin(), row.tokens.begin() + static_cast<std::ptrdiff_t>(begin));
  example.tokens.insert(example.tokens.end(), answer.begin(), answer.end());
  example.supervised = {{begin, example.tokens.size()}};
  return example;
}

/// One forward pass over packed examples.
struct Pass {
  PackedExamples packed;
  at::Tensor hidden;  // [rows, width]
};

Pass forward(CausalModel& model, const std::vector<const Example*>& examples, std::int64_t layers) {
  Pass pass{pack_examples(examples), {}};
  pass.hidden = model.hidden_states(pass.packed.token_ids, pass.packed.layout->sequence_offsets, layers);
  return pass;
}

at::Tensor rows_of(const at::Tensor& hidden, const std::vector<std::int64_t>& rows) {
  return hidden.index_select(0, at::tensor(rows, at::kLong));
}

constexpr std::int64_t rows_at_once = 64;  // of a readout's outputs

/// Log probability of one token for each row: fp64 [n].
at::Tensor target_likelihoods(CausalModel& model, EvaluationReadout* readout, const at::Tensor& hidden,
                              const std::vector<std::int64_t>& targets) {
  if (readout == nullptr) return model.target_log_probabilities(hidden, targets);
  std::vector<std::int64_t> outputs;
  for (const std::int64_t target : targets) outputs.push_back(readout->output_of(target));
  const at::Tensor columns = at::tensor(outputs, at::kLong).unsqueeze(1);
  std::vector<at::Tensor> blocks;
  for (std::int64_t first = 0; first < hidden.size(0); first += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, hidden.size(0) - first);
    const at::Tensor values = readout->log_probabilities(hidden.narrow(0, first, count));
    blocks.push_back(values.gather(1, columns.narrow(0, first, count)).squeeze(1));
  }
  return at::cat(blocks);
}

/// Log probabilities of the given tokens at each of the rows: fp64 [n, tokens].
at::Tensor token_likelihoods(CausalModel& model, EvaluationReadout* readout, const at::Tensor& hidden,
                             const std::vector<std::int64_t>& tokens) {
  if (readout == nullptr) return model.log_probabilities(hidden, tokens);
  std::vector<std::int64_t> outputs;
  for (const std::int64_t token : tokens) outputs.push_back(readout->output_of(token));
  return readout->log_probabilities(hidden).index_select(1, at::tensor(outputs, at::kLong));
}

/// Sum of the log-likelihoods of each sequence's supervised tokens, and their number.
std::vector<std::pair<double, std::uint64_t>> sequence_likelihoods(CausalModel& model,
                                                                   EvaluationReadout* readout,
                                                                   const Pass& pass) {
  const MicroBatchLayout& layout = *pass.packed.layout;
  std::vector<std::pair<double, std::uint64_t>> sums(static_cast<std::size_t>(layout.sequences()), {0.0, 0});
  if (layout.supervised_rows.empty()) return sums;
  const at::Tensor values =
      target_likelihoods(model, readout, rows_of(pass.hidden, layout.supervised_rows), layout.targets)
          .contiguous();
  const double* value = values.data_ptr<double>();
  std::size_t sequence = 0;
  for (std::size_t i = 0; i < layout.supervised_rows.size(); ++i) {
    while (layout.supervised_rows[i] >= layout.sequence_offsets[sequence + 1]) ++sequence;
    sums[sequence].first += value[i];
    ++sums[sequence].second;
  }
  return sums;
}

bool all_single(const std::vector<std::vector<TokenId>>& answers) {
  return std::all_of(answers.begin(), answers.end(), [](const auto& answer) { return answer.size() == 1; });
}

/// A row can be ranked if it has a class and a prompt to predict the answer from.
bool is_ranked(const Example& example) {
  return example.label.has_value() && example.answer_begin() > 0;
}

/// Classes of one token each: all from the row before the answer.
void rank_single_tokens(CausalModel& model, const Pass& pass, const std::vector<const Example*>& examples,
                        const EvaluationPlan& plan, RowScore* scores) {
  std::vector<std::int64_t> rows;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (!is_ranked(*examples[i])) continue;
    rows.push_back(pass.packed.layout->sequence_offsets[i] +
                   static_cast<std::int64_t>(examples[i]->answer_begin()) - 1);
    owners.push_back(i);
  }
  if (rows.empty()) return;
  std::vector<std::int64_t> tokens;
  for (const auto& answer : plan.label_answers) tokens.push_back(answer.front());
  const at::Tensor values =
      token_likelihoods(model, plan.readout, rows_of(pass.hidden, rows), tokens).contiguous();
  const double* value = values.data_ptr<double>();
  for (const std::size_t owner : owners) {
    scores[owner].labels.assign(value, value + tokens.size());
    value += tokens.size();
  }
}

/// Classes of any length: a pass for each class.
void rank_sequences(CausalModel& model, const std::vector<const Example*>& examples,
                    const EvaluationPlan& plan, RowScore* scores) {
  for (const std::vector<TokenId>& answer : plan.label_answers) {
    std::vector<Example> candidates;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      if (!is_ranked(*examples[i])) continue;
      candidates.push_back(with_answer(*examples[i], answer));
      owners.push_back(i);
    }
    if (candidates.empty()) return;
    std::vector<const Example*> pointers;
    for (const Example& candidate : candidates) pointers.push_back(&candidate);
    const auto sums = sequence_likelihoods(model, plan.readout, forward(model, pointers, plan.layers));
    for (std::size_t i = 0; i < owners.size(); ++i) scores[owners[i]].labels.push_back(sums[i].first);
  }
}

void score_batch(CausalModel& model, const std::vector<const Example*>& examples, const EvaluationPlan& plan,
                 RowScore* scores) {
  const Pass pass = forward(model, examples, plan.layers);
  const auto sums = sequence_likelihoods(model, plan.readout, pass);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    scores[i].log_likelihood = sums[i].first;
    scores[i].tokens = sums[i].second;
  }
  if (plan.label_answers.empty()) return;
  if (all_single(plan.label_answers)) {
    rank_single_tokens(model, pass, examples, plan, scores);
  } else {
    rank_sequences(model, examples, plan, scores);
  }
}

double log_sum_exp(const std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

EvaluationResult summarise(const Dataset& dataset, const std::vector<RowScore>& scores) {
  EvaluationResult result;
  result.examples = scores.size();
  double log_likelihood = 0;
  double label_nll = 0;
  std::uint64_t ranked = 0;
  std::uint64_t right = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    log_likelihood += scores[i].log_likelihood;
    result.supervised_tokens += scores[i].tokens;
    const std::vector<double>& labels = scores[i].labels;
    if (labels.empty()) continue;
    const std::size_t label = *dataset.examples[i].label;
    const auto best =
        static_cast<std::size_t>(std::max_element(labels.begin(), labels.end()) - labels.begin());
    right += best == label ? 1 : 0;
    label_nll += log_sum_exp(labels) - labels.at(label);
    ++ranked;
  }
  if (result.supervised_tokens > 0)
    result.nll = -log_likelihood / static_cast<double>(result.supervised_tokens);
  if (ranked > 0) {
    result.accuracy = static_cast<double>(right) / static_cast<double>(ranked);
    result.nll_label = label_nll / static_cast<double>(ranked);
  }
  return result;
}

}  // namespace

EvaluationResult evaluate(const Dataset& dataset, const EvaluationPlan& plan,
                          const ModelFactory& make_model) {
  const std::size_t count = dataset.examples.size();
  const std::size_t batches = (count + plan.batch - 1) / plan.batch;
  std::vector<RowScore> scores(count);
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      at::set_num_threads(1);
      const c10::NoGradGuard no_gradient;
      const std::unique_ptr<CausalModel> model = make_model();
      for (std::size_t batch = next++; batch < batches; batch = next++) {
        const std::size_t first = batch * plan.batch;
        std::vector<const Example*> examples;
        for (std::size_t i = first; i < std::min(count, first + plan.batch); ++i) {
          examples.push_back(&dataset.examples[i]);
        }
        score_batch(*model, examples, plan, &scores[first]);
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
      next = batches;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min<std::size_t>(plan.threads, batches); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return summarise(dataset, scores);
}

}  // namespace zerolock
