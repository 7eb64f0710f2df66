#pragma once
/// A model with the tokenizer that belongs to it, checked to fit each other.

#include <filesystem>
#include <memory>

#include "data/tokenizer.hpp"
#include "tensors/files/model_files.hpp"

namespace zerolock {

struct OpenedModel {
  std::shared_ptr<const ModelFiles> files;
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// Opens both; `given` is a path or names a random model (random_model.hpp), which is made if need be. Throws
/// InputError if either is broken, if the tokenizer knows ids that the embedding has no row for, or if a
/// special id lies outside the vocabulary. An embedding padded above the tokenizer's vocabulary is fine.
OpenedModel open_model(const std::filesystem::path& given);

/// Throws InputError unless every special id of model and tokenizer lies inside the model's vocabulary.
void check_vocabulary(const ModelConfig& config, const Tokenizer& tokenizer, const std::string& where);

/// One compute thread for each thread that multiplies, and LibTorch's allocator under memory accounts. Call
/// first.
void prepare_compute();

}  // namespace zerolock
