#pragma once
/// What the tests of model and training share: reference files, packing, comparing.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock::test {

/// A reference file: the complete one where the reference collection is there, else the cut-down copy.
inline std::filesystem::path reference_file(const std::string& name) {
  const std::filesystem::path complete = std::filesystem::path(ZEROLOCK_SHARED) / "fixtures" / name;
  if (std::filesystem::exists(complete)) return complete;
  return std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / name;
}

/// The same, or nothing, with a line that says so.
inline std::optional<std::filesystem::path> reference_file_if_any(const std::string& name) {
  const std::filesystem::path file = reference_file(name);
  if (std::filesystem::exists(file)) return file;
  std::cerr << "skipped: there is no " << name << " here\n";
  return std::nullopt;
}

inline nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

/// All tensors of a file, copied, in their own types.
inline TensorMap read_tensors(const std::filesystem::path& file) {
  static const std::map<StorageFormat, at::ScalarType> types = {{StorageFormat::f32, at::kFloat},
                                                                {StorageFormat::f64, at::kDouble},
                                                                {StorageFormat::i64, at::kLong},
                                                                {StorageFormat::i32, at::kInt}};
  const auto opened = SafetensorsFile::open(file);
  TensorMap tensors;
  for (const auto& [name, tensor] : opened->tensors()) {
    tensors[name] = at::from_blob(const_cast<std::byte*>(tensor.data()), tensor.shape(),
                                  at::TensorOptions().dtype(types.at(tensor.format())))
                        .clone();
  }
  return tensors;
}

/// A padded batch without its padding.
struct Packed {
  at::Tensor ids;                     // int64 [rows]
  std::vector<std::int64_t> offsets;  // of the sequences
  at::Tensor places;                  // int64 [rows]: where each row stood in the padded [sequences * length]

  /// The real rows of a padded [sequences, length, width].
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& padded) const {
    return padded.reshape({-1, padded.size(-1)}).index_select(0, places);
  }
};

inline Packed pack(const at::Tensor& ids, const at::Tensor& mask) {
  Packed packed;
  packed.places = mask.reshape({-1}).nonzero().squeeze(1);
  packed.ids = ids.reshape({-1}).index_select(0, packed.places);
  packed.offsets = {0};
  for (std::int64_t s = 0; s < ids.size(0); ++s) {
    packed.offsets.push_back(packed.offsets.back() + mask[s].sum().item<std::int64_t>());
  }
  return packed;
}

/// The layout of a padded batch with labels as Hugging Face has them: row t is supervised if labels[t + 1] is
/// not -100.
inline std::shared_ptr<const MicroBatchLayout> layout_of(const Packed& packed, const at::Tensor& labels) {
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = packed.offsets;
  const at::Tensor flat = labels.reshape({-1});
  for (std::size_t s = 0; s + 1 < packed.offsets.size(); ++s) {
    for (std::int64_t row = packed.offsets[s]; row + 1 < packed.offsets[s + 1]; ++row) {
      const auto label = flat[packed.places[row + 1].item<std::int64_t>()].item<std::int64_t>();
      if (label == -100) continue;
      layout->supervised_rows.push_back(row);
      layout->targets.push_back(label);
    }
  }
  layout->check();
  return layout;
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return HUGE_VAL;
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

/// Seeded normal numbers.
inline at::Tensor random_tensor(at::IntArrayRef shape, std::uint64_t seed,
                                at::ScalarType type = at::kDouble) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble)).to(type);
}

/// LoRA weights of a PEFT adapter folder, by PEFT's names.
inline TensorMap read_adapter(const std::string& model, const std::string& adapter) {
  return read_tensors(
      reference_file("models/" + model + "/adapters/" + adapter + "/adapter_model.safetensors"));
}

inline const std::vector<std::string>& all_targets() {
  static const std::vector<std::string> targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                   "gate_proj", "up_proj", "down_proj"};
  return targets;
}

/// An opened reference model, or null with a line that says so.
inline std::shared_ptr<const ModelFiles> open_reference_model(const std::string& name) {
  const std::filesystem::path folder = reference_file("models/" + name + "/config.json").parent_path();
  const bool whole = std::filesystem::exists(folder / "model.safetensors") ||
                     (std::filesystem::exists(folder / "model.safetensors.index.json") &&
                      std::filesystem::exists(folder / "model-00001-of-00002.safetensors"));
  if (whole) return ModelFiles::open(folder);
  std::cerr << "skipped: there is no model " << name << " here\n";
  return nullptr;
}

}  // namespace zerolock::test
