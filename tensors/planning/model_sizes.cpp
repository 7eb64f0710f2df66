#include "tensors/planning/model_sizes.hpp"

#include <algorithm>
#include <string>

#include "tensors/base/error.hpp"
#include "tensors/model/attention.hpp"
#include "tensors/training/base_format.hpp"
#include "tensors/training/chunk_backend.hpp"

namespace zerolock {
namespace {

MatrixSize size_of(const StoredTensor& weight, bool bias) {
  const std::optional<at::ScalarType> type = scalar_type_of(weight.format());
  const bool aligned = type && reinterpret_cast<std::uintptr_t>(weight.data()) % c10::elementSize(*type) == 0;
  return {weight.rows(),
          weight.row_elements(),
          weight.format(),
          static_cast<std::int64_t>(weight.stored_bytes()),
          aligned && !weight.has_row_order(),
          bias};
}

}  // namespace

ModelSizes sizes_of(const ModelFiles& model) {
  ModelSizes sizes;
  sizes.config = model.config();
  for (std::int64_t index = 0; index < sizes.config.layers; ++index) {
    LayerSizes layer;
    for (std::size_t p = 0; p < projection_count; ++p) {
      const std::string module = "model.layers." + std::to_string(index) + "." +
                                 std::string(module_path(static_cast<Projection>(p)));
      layer.projections[p] = size_of(model.tensor(module + ".weight"), model.contains(module + ".bias"));
    }
    sizes.layers.push_back(layer);
  }
  sizes.embedding = size_of(model.tensor("model.embed_tokens.weight"), false);
  sizes.head = size_of(model.head(), false);
  return sizes;
}

StorageFormat held_format(const MatrixSize& matrix, BaseFormat base) {
  const StorageFormat format = base_format(base).value_or(matrix.format);
  if (matrix.columns % block_elements(format) != 0) {
    throw InputError("--base", "rows of " + std::to_string(matrix.columns) + " values cannot be stored as " +
                                   std::string(to_string(format)) + ", which packs " +
                                   std::to_string(block_elements(format)));
  }
  return format;
}

std::int64_t held_bytes(const MatrixSize& matrix, BaseFormat base) {
  const StorageFormat format = held_format(matrix, base);
  return matrix.elements() / block_elements(format) * static_cast<std::int64_t>(block_bytes(format));
}

bool held_in_file(const MatrixSize& matrix, BaseFormat base) {
  return held_format(matrix, base) == matrix.format;
}

bool multiplied_in_place(const MatrixSize& matrix, const TrainingSettings& settings) {
  const bool plain = matrix.plain || !held_in_file(matrix, settings.base);
  return plain && scalar_type_of(held_format(matrix, settings.base)) == scalar_type(settings.compute);
}

MicroBatchShape shape_of(const MicroBatchLayout& layout) {
  MicroBatchShape shape;
  shape.sequences = layout.sequences();
  shape.rows = layout.rows();
  for (std::size_t s = 1; s < layout.sequence_offsets.size(); ++s) {
    const std::int64_t tokens = layout.sequence_offsets[s] - layout.sequence_offsets[s - 1];
    shape.longest = std::max(shape.longest, tokens);
    shape.scores += attention_scores(tokens);
  }
  shape.supervised_rows = static_cast<std::int64_t>(layout.supervised_rows.size());
  return shape;
}

MicroBatchShape full_shape(std::int64_t sequences, std::int64_t tokens,
                           std::int64_t supervised_per_sequence) {
  return {sequences, sequences * tokens, tokens, sequences * attention_scores(tokens),
          sequences * supervised_per_sequence};
}

MicroBatchShape larger(const MicroBatchShape& a, const MicroBatchShape& b) {
  return {std::max(a.sequences, b.sequences), std::max(a.rows, b.rows), std::max(a.longest, b.longest),
          std::max(a.scores, b.scores), std::max(a.supervised_rows, b.supervised_rows)};
}

}  // namespace zerolock
