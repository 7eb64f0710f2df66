#pragma once
/// A run of consecutive decoder layers: what one stage holds of the model.

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensors/base/indices.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/model/decoder_layer.hpp"

namespace zerolock {

/// Which linear layers get a LoRA pair, and how it starts.
struct LoraPlan {
  std::int64_t rank = 0;
  double scale = 1;
  std::vector<std::string> targets;  // PEFT's target names; none: no adapter
  std::uint64_t seed = 0;
};

/// Makes a stored weight ready for use, for instance by converting it to another storage format.
using WeightTransform = std::function<StoredTensor(const StoredTensor&)>;

/// What a chunk's backward needs: every layer's tape, or with recomputation only every layer's input.
struct ChunkTape {
  std::vector<LayerTape> layers;
  std::vector<at::Tensor> inputs;
};

/// Several micro-batches that lie one after another: where each begins, among all rows and among those whose
/// gradient is given. Empty: it is one.
struct ChunkParts {
  RowParts rows;
  RowParts given_rows;
};

/// Not thread-safe: the layers share a scratch.
class Chunk {
 public:
  /// Loads layers `range`. Throws InputError for an unknown LoRA target. Charges its memory to the account in
  /// force: stored weights and norms to "weights", LoRA pairs to "optimizer".
  Chunk(const ModelFiles& model, LayerRange range, at::ScalarType compute_type, const LoraPlan& lora,
        const WeightTransform& transform = {});

  /// x [rows, width] -> the hidden state after the last layer. The tape, unless null, is filled for
  /// backward; with `recompute` it holds the layers' inputs only. The last output is charged to "buffers".
  at::Tensor forward(const at::Tensor& x, const std::vector<std::int64_t>& sequence_offsets, ChunkTape* tape,
                     bool recompute);
  /// The hidden state after the first `count` layers, nothing kept.
  at::Tensor forward_first(const at::Tensor& x, const std::vector<std::int64_t>& sequence_offsets,
                           std::int64_t count);
  /// The next rows of one sequence, after those in the cache.
  at::Tensor decode(const at::Tensor& x, KeyValueCache& cache);
  /// Adds the LoRA gradients to their sums. The gradient of the output is zero but for the given rows (int64
  /// [n], ascending): dy [n, width], which is overwritten. Returns the gradient of x, or an undefined tensor
  /// if nobody needs it.
  at::Tensor backward(at::Tensor dy, const at::Tensor& rows, ChunkTape tape,
                      const std::vector<std::int64_t>& sequence_offsets, bool need_input_gradient,
                      const ChunkParts& parts = {});
  /// The same with the gradient of every row: dy [rows, width].
  at::Tensor backward(at::Tensor dy, ChunkTape tape, const std::vector<std::int64_t>& sequence_offsets,
                      bool need_input_gradient);

  /// Off: forward computes with the frozen weights alone. A tape needs them on.
  void set_lora_active(bool active);
  /// Frees the gradient sums: no backward from here on.
  void freeze_lora();

  /// All LoRA pairs, layer by layer in the order in which they run.
  [[nodiscard]] std::vector<LoraPair*> lora_pairs();
  [[nodiscard]] ExpansionScratch& scratch() { return scratch_; }
  [[nodiscard]] const LayerRange& range() const { return range_; }
  /// Bytes of the frozen weights that lie in the model's files: no allocator knows of them.
  [[nodiscard]] std::size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  /// The tape of a layer of this chunk, which is used up or, with recomputation, made again.
  LayerTape tape_of(std::size_t layer, ChunkTape& tape, const LayerContext& context);
  /// Backward of the first `count` layers.
  at::Tensor backward_of_first(std::size_t count, at::Tensor dy, ChunkTape& tape, const LayerContext& context,
                               bool need_input_gradient);

  LayerRange range_;
  RotaryTable rotary_;
  ExpansionScratch scratch_;
  std::vector<DecoderLayer> layers_;
  std::size_t mapped_bytes_ = 0;
};

/// Rows of the embedding for the given token ids (int64 [rows]): [rows, width] in the compute type. Throws
/// InputError for an id outside the vocabulary.
at::Tensor embed(const StoredTensor& embedding, const at::Tensor& token_ids, at::ScalarType compute_type);

}  // namespace zerolock
