#pragma once
/// config.json of a model that has none.

#include <nlohmann/json.hpp>

#include "tensors/files/model_config.hpp"

namespace zerolock {

/// A Hugging Face configuration that read_model_config reads as `config`, and that transformers reads alike.
nlohmann::ordered_json hugging_face_config(const ModelConfig& config);

}  // namespace zerolock
