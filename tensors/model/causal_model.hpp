#pragma once
/// A whole model for evaluation and generation: forward only, with or without an adapter.

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/model/chunk.hpp"
#include "tensors/model/output_matrix.hpp"

namespace zerolock {

/// Not thread-safe. Results of a sequence do not depend on what else is in the batch, as far as the matrix
/// product gives equal bits for equal rows.
class CausalModel {
 public:
  /// `adapter` says which layers have LoRA pairs; set_adapter gives them their weights.
  explicit CausalModel(std::shared_ptr<const ModelFiles> model, at::ScalarType compute_type = at::kFloat,
                       const LoraPlan& adapter = {}, const WeightTransform& transform = {});

  /// Copies LoRA weights by their PEFT names. Throws InputError that names the first missing, unexpected or
  /// wrongly shaped one.
  void set_adapter(const std::map<std::string, at::Tensor>& weights);

  /// token_ids int64 [rows] of packed sequences -> the residual stream [rows, width] after layer `layers` - 1
  /// and before the final norm; all layers by default, 0 for the embedding. Throws InputError for an unknown
  /// token id.
  at::Tensor hidden_states(const at::Tensor& token_ids, const std::vector<std::int64_t>& sequence_offsets,
                           std::int64_t layers = -1);
  /// The same for the next tokens of one sequence, after those in the cache.
  at::Tensor decode(const at::Tensor& token_ids, KeyValueCache& cache);
  [[nodiscard]] KeyValueCache make_cache() const { return KeyValueCache(config().layers); }

  /// Final norm and readout of hidden rows [n, width] -> [n, vocabulary].
  at::Tensor logits(const at::Tensor& hidden);
  /// Log probabilities, over the whole vocabulary, of the given tokens at each of the rows: fp64 [n, tokens].
  /// Computed in row blocks, so the logits of all rows never exist at once.
  at::Tensor log_probabilities(const at::Tensor& hidden, const std::vector<std::int64_t>& tokens);
  /// Log probability of one token for each row: fp64 [n].
  at::Tensor target_log_probabilities(const at::Tensor& hidden, const std::vector<std::int64_t>& targets);

  [[nodiscard]] const ModelConfig& config() const { return model_->config(); }

 private:
  /// Calls select(first row, logits [n, vocabulary], their log-sums [n, 1]) for one block of rows after
  /// another.
  template <class Select>
  void for_each_block(const at::Tensor& hidden, Select select);

  std::shared_ptr<const ModelFiles> model_;
  Chunk chunk_;
  StoredTensor embedding_;
  RmsNorm final_norm_;
  OutputMatrix head_;
};

}  // namespace zerolock
