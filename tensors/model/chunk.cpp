#include "tensors/model/chunk.hpp"

#include <algorithm>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {
namespace {

/// Reads the weights of one layer.
class LayerLoader {
 public:
  LayerLoader(const ModelFiles& model, at::ScalarType type, const LoraPlan& lora,
              const WeightTransform& transform)
      : model_(model), type_(type), lora_(lora), transform_(transform) {}

  DecoderLayer load(std::int64_t index) {
    const ModelConfig& config = model_.config();
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    DecoderLayer layer;
    layer.attention = {config.heads, config.key_value_heads, config.head_dimension};
    layer.attention_norm = {vector(prefix + "input_layernorm.weight"), config.rms_norm_epsilon};
    layer.feed_forward_norm = {vector(prefix + "post_attention_layernorm.weight"), config.rms_norm_epsilon};
    for (std::size_t i = 0; i < projection_count; ++i) {
      const auto projection = static_cast<Projection>(i);
      layer[projection] = linear(prefix + std::string(module_path(projection)), target_name(projection));
    }
    return layer;
  }

  [[nodiscard]] std::size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  /// Small tensors are expanded for good.
  at::Tensor vector(const std::string& name) {
    const MemoryScope scope(MemoryComponent::weights);
    return model_.tensor(name).expand(type_);
  }

  AdaptedLinear linear(const std::string& module, std::string_view target) {
    AdaptedLinear made;
    const StoredTensor mapped = model_.tensor(module + ".weight");
    {
      const MemoryScope scope(MemoryComponent::weights);
      made.frozen.weight = transform_ ? transform_(mapped) : mapped;
    }
    // A converted weight lies in memory that the allocator has charged already.
    if (made.frozen.weight.data() == mapped.data()) mapped_bytes_ += mapped.stored_bytes();
    if (model_.contains(module + ".bias")) made.frozen.bias = vector(module + ".bias");
    if (std::find(lora_.targets.begin(), lora_.targets.end(), target) != lora_.targets.end()) {
      const MemoryScope scope(MemoryComponent::optimizer);
      made.lora =
          make_lora_pair("base_model.model." + module, lora_.rank, made.frozen.in(), made.frozen.out(),
                         lora_.scale, lora_.seed, type_ == at::kDouble ? at::kDouble : at::kFloat);
    }
    return made;
  }

  const ModelFiles& model_;
  at::ScalarType type_;
  const LoraPlan& lora_;
  const WeightTransform& transform_;
  std::size_t mapped_bytes_ = 0;
};

void check_targets(const std::vector<std::string>& targets) {
  for (const std::string& target : targets) {
    bool known = false;
    std::string allowed;
    for (std::size_t i = 0; i < projection_count; ++i) {
      const std::string_view name = target_name(static_cast<Projection>(i));
      known = known || name == target;
      allowed += (i == 0 ? "" : ", ") + std::string(name);
    }
    if (!known) throw InputError("LoRA target " + target, "unknown; allowed are " + allowed);
  }
}

}  // namespace

Chunk::Chunk(const ModelFiles& model, LayerRange range, at::ScalarType compute_type, const LoraPlan& lora,
             const WeightTransform& transform)
    : range_(range), rotary_(model.config(), compute_type), scratch_(compute_type) {
  ZEROLOCK_INVARIANT(range.first >= 0 && range.first < range.last && range.last <= model.config().layers,
                     "a chunk is a part of the model");
  check_targets(lora.targets);
  LayerLoader loader(model, compute_type, lora, transform);
  for (std::int64_t index = range.first; index < range.last; ++index) layers_.push_back(loader.load(index));
  mapped_bytes_ = loader.mapped_bytes();
}

at::Tensor Chunk::forward(const at::Tensor& x, const std::vector<std::int64_t>& sequence_offsets,
                          ChunkTape* tape, bool recompute) {
  LayerContext context{sequence_offsets, rotary_, scratch_, MemoryComponent::activations, {}, {}};
  if (tape != nullptr && !recompute) tape->layers.resize(layers_.size());
  at::Tensor h = x;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (l + 1 == layers_.size()) context.output_component = MemoryComponent::buffers;
    if (tape != nullptr && recompute) tape->inputs.push_back(h);
    h = layer_forward(layers_[l], h, context, tape != nullptr && !recompute ? &tape->layers[l] : nullptr);
  }
  return h;
}

at::Tensor Chunk::forward_first(const at::Tensor& x, const std::vector<std::int64_t>& sequence_offsets,
                                std::int64_t count) {
  ZEROLOCK_INVARIANT(count >= 0 && count <= range_.count(), "no more layers than the chunk has");
  const LayerContext context{sequence_offsets, rotary_, scratch_, MemoryComponent::activations, {}, {}};
  at::Tensor h = x;
  for (std::int64_t l = 0; l < count; ++l) {
    h = layer_forward(layers_[static_cast<std::size_t>(l)], h, context, nullptr);
  }
  return h;
}

at::Tensor Chunk::decode(const at::Tensor& x, KeyValueCache& cache) {
  ZEROLOCK_INVARIANT(cache.layers.size() == layers_.size(), "a cache for each layer");
  const std::vector<std::int64_t> one_sequence{0, x.size(0)};
  const LayerContext context{one_sequence, rotary_, scratch_, MemoryComponent::activations, {}, {}};
  at::Tensor h = x;
  for (std::size_t l = 0; l < layers_.size(); ++l) h = layer_decode(layers_[l], h, context, cache.layers[l]);
  return h;
}

at::Tensor Chunk::backward(at::Tensor dy, const at::Tensor& rows, ChunkTape tape,
                           const std::vector<std::int64_t>& sequence_offsets, bool need_input_gradient,
                           const ChunkParts& parts) {
  const LayerContext context{sequence_offsets, rotary_,         scratch_, MemoryComponent::activations,
                             parts.rows,       parts.given_rows};
  const std::size_t last = layers_.size() - 1;
  dy = layer_backward_from_rows(layers_[last], std::move(dy), rows, tape_of(last, tape, context), context,
                                last > 0 || need_input_gradient);
  return backward_of_first(last, std::move(dy), tape, context, need_input_gradient);
}

at::Tensor Chunk::backward(at::Tensor dy, ChunkTape tape, const std::vector<std::int64_t>& sequence_offsets,
                           bool need_input_gradient) {
  const LayerContext context{sequence_offsets, rotary_, scratch_, MemoryComponent::activations, {}, {}};
  return backward_of_first(layers_.size(), std::move(dy), tape, context, need_input_gradient);
}

LayerTape Chunk::tape_of(std::size_t layer, ChunkTape& tape, const LayerContext& context) {
  const bool recomputed = tape.layers.empty();
  ZEROLOCK_INVARIANT((recomputed ? tape.inputs.size() == layer + 1 : tape.layers.size() == layers_.size()),
                     "the tape of this chunk's forward");
  if (!recomputed) return std::move(tape.layers[layer]);
  LayerTape again;
  layer_record(layers_[layer], tape.inputs.back(), context, again);
  tape.inputs.pop_back();
  return again;
}

at::Tensor Chunk::backward_of_first(std::size_t count, at::Tensor dy, ChunkTape& tape,
                                    const LayerContext& context, bool need_input_gradient) {
  for (std::size_t l = count; l-- > 0;) {
    dy = layer_backward(layers_[l], std::move(dy), tape_of(l, tape, context), context,
                        l > 0 || need_input_gradient);
  }
  return dy;
}

void Chunk::set_lora_active(bool active) {
  for (LoraPair* pair : lora_pairs()) pair->active = active;
}

void Chunk::freeze_lora() {
  for (LoraPair* pair : lora_pairs()) {
    pair->a_gradient = at::Tensor();
    pair->b_gradient = at::Tensor();
  }
}

std::vector<LoraPair*> Chunk::lora_pairs() {
  std::vector<LoraPair*> pairs;
  for (DecoderLayer& layer : layers_) {
    for (AdaptedLinear& linear : layer.projections) {
      if (linear.lora) pairs.push_back(&*linear.lora);
    }
  }
  return pairs;
}

at::Tensor embed(const StoredTensor& embedding, const at::Tensor& token_ids, at::ScalarType compute_type) {
  ZEROLOCK_INVARIANT(
      token_ids.scalar_type() == at::kLong && token_ids.dim() == 1 && token_ids.is_contiguous(),
      "token ids are one row of int64");
  const auto* ids = token_ids.data_ptr<std::int64_t>();
  const std::vector<std::int64_t> rows(ids, ids + token_ids.numel());
  for (const std::int64_t id : rows) {
    if (id < 0 || id >= embedding.rows()) {
      throw InputError("token id " + std::to_string(id),
                       "outside the model's vocabulary of " + std::to_string(embedding.rows()));
    }
  }
  return embedding.expand_selected_rows(rows).to(compute_type);
}

}  // namespace zerolock
