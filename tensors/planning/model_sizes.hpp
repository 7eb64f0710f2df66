#pragma once
/// What a planner has to know of a model: shapes and formats, no values.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/files/model_config.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/files/stored_tensor.hpp"
#include "tensors/model/decoder_layer.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

/// A stored matrix [rows, columns].
struct MatrixSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  StorageFormat format = StorageFormat::f32;
  std::int64_t stored_bytes = 0;
  bool plain = false;  // its bytes, in their order and at their address, are a matrix of a LibTorch type
  bool bias = false;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

struct LayerSizes {
  std::array<MatrixSize, projection_count> projections;

  [[nodiscard]] const MatrixSize& operator[](Projection p) const {
    return projections[static_cast<std::size_t>(p)];
  }
};

struct ModelSizes {
  ModelConfig config;
  std::vector<LayerSizes> layers;
  MatrixSize embedding;
  MatrixSize head;  // the embedding when tied
};

ModelSizes sizes_of(const ModelFiles& model);

/// The format in which a stage holds a frozen matrix. Throws InputError if its rows do not fit the blocks of
/// the one that is asked for.
StorageFormat held_format(const MatrixSize& matrix, BaseFormat base);
std::int64_t held_bytes(const MatrixSize& matrix, BaseFormat base);
/// Whether it is held as its file has it, without memory of its own.
bool held_in_file(const MatrixSize& matrix, BaseFormat base);
/// Whether products use it as it is held, without expanding it.
bool multiplied_in_place(const MatrixSize& matrix, const TrainingSettings& settings);

/// How much there is of a micro-batch.
struct MicroBatchShape {
  std::int64_t sequences = 0;
  std::int64_t rows = 0;     // tokens of all sequences
  std::int64_t longest = 0;  // tokens of the longest sequence
  std::int64_t scores = 0;   // that one attention head computes, in blocks of queries as in fp32
  std::int64_t supervised_rows = 0;

  bool operator==(const MicroBatchShape&) const = default;
};

MicroBatchShape shape_of(const MicroBatchLayout& layout);
/// b full sequences, the same number of supervised rows in each.
MicroBatchShape full_shape(std::int64_t sequences, std::int64_t tokens, std::int64_t supervised_per_sequence);
/// The larger of each number.
MicroBatchShape larger(const MicroBatchShape& a, const MicroBatchShape& b);

/// One stage of a run of so many.
struct PlannedStage {
  StageIndex stage;
  std::uint64_t stages = 1;
  LayerRange layers;

  [[nodiscard]] bool first() const { return stage.value == 0; }
  [[nodiscard]] bool last() const { return stage.value + 1 == stages; }
};

}  // namespace zerolock
