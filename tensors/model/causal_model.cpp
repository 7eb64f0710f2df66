#include "tensors/model/causal_model.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

/// Logits of a block of rows stay under this.
constexpr std::int64_t logits_block_bytes_max = 32 << 20;

}  // namespace

CausalModel::CausalModel(std::shared_ptr<const ModelFiles> model, at::ScalarType compute_type,
                         const LoraPlan& adapter, const WeightTransform& transform)
    : model_(std::move(model)),
      chunk_(*model_, {0, model_->config().layers}, compute_type, adapter, transform),
      embedding_(model_->tensor("model.embed_tokens.weight")),
      final_norm_{model_->tensor("model.norm.weight").expand(compute_type),
                  model_->config().rms_norm_epsilon},
      head_(model_->head()) {}

void CausalModel::set_adapter(const std::map<std::string, at::Tensor>& weights) {
  std::size_t used = 0;
  const auto copy = [&](const std::string& name, at::Tensor& into) {
    const auto found = weights.find(name);
    if (found == weights.end()) throw InputError("adapter", "lacks the tensor " + name);
    if (found->second.sizes() != into.sizes()) {
      throw InputError("adapter", "tensor " + name + " does not have the shape that rank and model ask for");
    }
    into.copy_(found->second);
    ++used;
  };
  std::map<std::string, bool> expected;
  for (LoraPair* pair : chunk_.lora_pairs()) {
    copy(pair->a_name(), pair->a);
    copy(pair->b_name(), pair->b);
    expected[pair->a_name()] = expected[pair->b_name()] = true;
  }
  if (used == weights.size()) return;
  for (const auto& [name, tensor] : weights) {
    if (!expected.contains(name)) throw InputError("adapter", "unexpected tensor " + name);
  }
}

at::Tensor CausalModel::hidden_states(const at::Tensor& token_ids,
                                      const std::vector<std::int64_t>& sequence_offsets,
                                      std::int64_t layers) {
  const c10::InferenceMode guard;
  return chunk_.forward_first(embed(embedding_, token_ids, chunk_.scratch().compute_type()), sequence_offsets,
                              layers < 0 ? config().layers : layers);
}

at::Tensor CausalModel::decode(const at::Tensor& token_ids, KeyValueCache& cache) {
  const c10::InferenceMode guard;
  return chunk_.decode(embed(embedding_, token_ids, chunk_.scratch().compute_type()), cache);
}

at::Tensor CausalModel::logits(const at::Tensor& hidden) {
  const c10::InferenceMode guard;
  at::Tensor logits = at::empty({hidden.size(0), head_.outputs()}, hidden.options());
  head_.multiply(rms_norm_forward(final_norm_, hidden, nullptr), logits, chunk_.scratch());
  return logits;
}

template <class Select>
void CausalModel::for_each_block(const at::Tensor& hidden, Select select) {
  const std::int64_t row_bytes = head_.outputs() * static_cast<std::int64_t>(hidden.element_size());
  const std::int64_t step = std::max<std::int64_t>(1, logits_block_bytes_max / row_bytes);
  for (std::int64_t first = 0; first < hidden.size(0); first += step) {
    const at::Tensor z = logits(hidden.narrow(0, first, std::min(step, hidden.size(0) - first)));
    select(first, z, z.logsumexp({1}, true).to(at::kDouble));
  }
}

at::Tensor CausalModel::log_probabilities(const at::Tensor& hidden, const std::vector<std::int64_t>& tokens) {
  const c10::InferenceMode guard;
  const auto count = static_cast<std::int64_t>(tokens.size());
  at::Tensor result = at::empty({hidden.size(0), count}, at::kDouble);
  const at::Tensor columns = at::tensor(tokens, at::kLong);
  for_each_block(hidden, [&](std::int64_t first, const at::Tensor& z, const at::Tensor& sums) {
    result.narrow(0, first, z.size(0)).copy_(z.index_select(1, columns).to(at::kDouble).sub_(sums));
  });
  return result;
}

at::Tensor CausalModel::target_log_probabilities(const at::Tensor& hidden,
                                                 const std::vector<std::int64_t>& targets) {
  const c10::InferenceMode guard;
  ZEROLOCK_INVARIANT(static_cast<std::int64_t>(targets.size()) == hidden.size(0), "a target for each row");
  at::Tensor result = at::empty({hidden.size(0)}, at::kDouble);
  const at::Tensor columns = at::tensor(targets, at::kLong).unsqueeze(1);
  for_each_block(hidden, [&](std::int64_t first, const at::Tensor& z, const at::Tensor& sums) {
    const at::Tensor chosen = z.gather(1, columns.narrow(0, first, z.size(0))).to(at::kDouble);
    result.narrow(0, first, z.size(0)).copy_(chosen.sub_(sums).squeeze(1));
  });
  return result;
}

}  // namespace zerolock
