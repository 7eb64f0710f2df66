#include "apps/command/adapter_output.hpp"

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/adapter_files.hpp"

namespace zerolock {

namespace {

constexpr std::string_view lora_prefix = "lora.";

std::filesystem::path beside(const std::filesystem::path& folder, const char* ending) {
  std::filesystem::path path = folder;
  path += ending;
  return path;
}

}  // namespace

std::string write_adapter_folder(const std::filesystem::path& folder, const std::vector<StageState>& states,
                                 const LoraSettings& lora, const ModelFiles& model) {
  Adapter adapter;
  adapter.settings = {lora.rank, lora.alpha, lora.rank_stabilised, lora.targets};
  adapter.base_model = std::filesystem::absolute(model.path()).lexically_normal().string();
  adapter.base_content_hash = model.content_hash();
  for (const StageState& state : states) {
    for (const auto& [name, tensor] : state.tensors) {
      if (name.rfind(lora_prefix, 0) != 0) continue;
      const bool added =
          adapter.tensors.emplace(name.substr(lora_prefix.size()), tensor.to(at::kFloat)).second;
      ZEROLOCK_INVARIANT(added, "no two stages train the same matrix");
    }
  }
  const std::filesystem::path fresh = beside(folder, ".tmp");
  const std::filesystem::path old = beside(folder, ".old");
  std::filesystem::remove_all(fresh);
  write_adapter(fresh, adapter);
  std::filesystem::remove_all(old);
  if (std::filesystem::exists(folder)) std::filesystem::rename(folder, old);
  std::filesystem::rename(fresh, folder);
  std::filesystem::remove_all(old);
  return sha256_of_file(folder / "adapter_model.safetensors");
}

}  // namespace zerolock
