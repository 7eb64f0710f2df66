#pragma once
/// LoRA adapters in PEFT's folder format: adapter_config.json and adapter_model.safetensors.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {

/// The part of PEFT's LoraConfig that decides what an adapter computes.
struct AdapterSettings {
  std::int64_t rank = 4;
  double alpha = 16;
  bool rank_stabilised = false;      // scale alpha / sqrt(rank) instead of alpha / rank
  std::vector<std::string> targets;  // of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj

  [[nodiscard]] double scale() const;
};

struct Adapter {
  AdapterSettings settings;
  /// By PEFT's names, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" [rank, in] and
  /// "...lora_B.weight" [out, rank]; float32 when read.
  TensorMap tensors;
  std::string base_model;  // where the base lay, for people only
  std::optional<std::string>
      base_content_hash;  // ModelFiles::content_hash of the base, if its maker noted it
};

/// Writes the folder, creating it if needed; the same adapter gives the same bytes. A crash leaves either no
/// adapter_config.json, which readers report, or the whole adapter. The content hash goes into the
/// safetensors metadata, which PEFT does not look at. Throws RunError if it cannot be written.
void write_adapter(const std::filesystem::path& folder, const Adapter& adapter);

/// Reads an adapter by itself (for showing what it holds). Throws InputError, naming the file and key: other
/// PEFT types, unknown targets, and options that would compute something else (DoRA, biases, patterns, saved
/// modules, ...).
Adapter read_adapter(const std::filesystem::path& folder);

/// Reads an adapter for a base model. Throws InputError also if keys are missing or unexpected (the first
/// names are listed), if a shape does not fit the rank and the model, or if the adapter notes another base's
/// content hash.
Adapter read_adapter(const std::filesystem::path& folder, const ModelFiles& base);

}  // namespace zerolock
