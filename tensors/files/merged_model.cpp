#include "tensors/files/merged_model.hpp"

#include <map>
#include <string>

#include "tensors/base/error.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

constexpr std::string_view weight_suffix = ".weight";

/// PEFT's name of a LoRA matrix of the weight; `matrix` is "lora_A" or "lora_B".
std::string adapter_name(const std::string& weight, const std::string& matrix) {
  const std::string module = weight.substr(0, weight.size() - weight_suffix.size());
  return "base_model.model." + module + "." + matrix + ".weight";
}

/// float32
at::Tensor merged(const StoredTensor& weight, const Adapter& adapter) {
  at::Tensor values = weight.expand(at::kFloat);
  if (!weight.name().ends_with(weight_suffix)) return values;
  const auto a = adapter.tensors.find(adapter_name(weight.name(), "lora_A"));
  if (a == adapter.tensors.end()) return values;
  const at::Tensor& b = adapter.tensors.at(adapter_name(weight.name(), "lora_B"));
  return values.addmm_(b.to(at::kFloat), a->second.to(at::kFloat), 1, adapter.settings.scale());
}

}  // namespace

at::ScalarType exported_type(const StoredTensor& tensor, std::optional<at::ScalarType> wanted) {
  if (wanted) return *wanted;
  return scalar_type_of(tensor.format()).value_or(at::kFloat);
}

std::uint64_t merged_weights_bytes(const ModelFiles& model, std::optional<at::ScalarType> wanted) {
  std::uint64_t bytes = 0;
  for (const auto& [name, shape] : model_tensor_shapes(model.config())) {
    const StoredTensor tensor = model.tensor(name);
    bytes += static_cast<std::uint64_t>(tensor.elements()) * c10::elementSize(exported_type(tensor, wanted));
  }
  return bytes;
}

void write_merged_weights(const std::filesystem::path& file, const ModelFiles& model, const Adapter& adapter,
                          std::optional<at::ScalarType> wanted) {
  std::map<std::string, TensorOutline> outlines;
  for (const auto& [name, shape] : model_tensor_shapes(model.config())) {
    outlines[name] = {exported_type(model.tensor(name), wanted), shape};
  }
  const auto make = [&](const std::string& name) {
    const StoredTensor tensor = model.tensor(name);
    const at::Tensor values = merged(tensor, adapter).to(outlines.at(name).type);
    tensor.release();
    return values;
  };
  write_safetensors(file, outlines, make, {{"format", "pt"}});  // transformers asks for the format
}

}  // namespace zerolock
