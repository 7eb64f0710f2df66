#include "tensors/files/adapter_files.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensors/base/error.hpp"
#include "tensors/files/durable_file.hpp"
#include "tensors/files/json_object.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr const char* hash_key = "zerolock.base_content_hash";
constexpr std::int64_t rank_max = 1 << 16;
constexpr std::size_t names_listed_max = 3;

struct Target {
  std::string_view name;
  std::string_view block;
};
constexpr std::array known_targets{Target{"q_proj", "self_attn"}, Target{"k_proj", "self_attn"},
                                   Target{"v_proj", "self_attn"}, Target{"o_proj", "self_attn"},
                                   Target{"gate_proj", "mlp"},    Target{"up_proj", "mlp"},
                                   Target{"down_proj", "mlp"}};

const Target* find_target(std::string_view name) {
  const auto found = std::find_if(known_targets.begin(), known_targets.end(),
                                  [&](const Target& target) { return target.name == name; });
  return found == known_targets.end() ? nullptr : &*found;
}

std::string target_list() {
  std::string list;
  for (const Target& target : known_targets) list += (list.empty() ? "" : ", ") + std::string(target.name);
  return list;
}

bool is_off(const json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
}

/// Everything that changes what the two matrices mean, or that stands for weights beyond them.
void refuse_unsupported(const JsonObject& config) {
  const std::string type = config.text("peft_type");
  if (type != "LORA") config.refuse("peft_type", "\"" + type + "\" is not supported (supported: LORA)");
  const std::string bias = config.text_or("bias", "none");
  if (bias != "none") config.refuse("bias", "\"" + bias + "\" is not supported (supported: none)");
  for (const char* key :
       {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "fan_in_fan_out", "rank_pattern",
        "alpha_pattern", "modules_to_save", "layers_to_transform", "layers_pattern", "layer_replication",
        "exclude_modules", "target_parameters", "trainable_token_indices", "alora_invocation_tokens",
        "megatron_config", "velora_config", "kasa_config", "monteclora_config"}) {
    const json* const value = config.find(key);
    if (value != nullptr && !is_off(*value)) config.refuse(key, "is set, which is not supported");
  }
  // Some initialisations move part of the base weights into the adapter; it then fits the changed base only.
  if (const json* start = config.find("init_lora_weights"); start != nullptr && start->is_string()) {
    if (*start != "gaussian" && *start != "orthogonal" && *start != "eva") {
      config.refuse("init_lora_weights", describe(*start) + " is not supported: it changes the base model");
    }
  }
}

AdapterSettings read_settings(const JsonObject& config) {
  refuse_unsupported(config);
  AdapterSettings settings;
  settings.rank = config.integer("r");
  if (settings.rank < 1 || settings.rank > rank_max) {
    config.refuse("r", "is " + std::to_string(settings.rank) + ", must be 1 to " + std::to_string(rank_max));
  }
  settings.alpha = config.number("lora_alpha");
  settings.rank_stabilised = config.boolean_or("use_rslora", false);
  settings.targets = config.texts("target_modules");
  for (const std::string& target : settings.targets) {
    if (find_target(target) == nullptr) {
      config.refuse("target_modules", "\"" + target + "\" is unknown (supported: " + target_list() + ")");
    }
  }
  std::sort(settings.targets.begin(), settings.targets.end());
  settings.targets.erase(std::unique(settings.targets.begin(), settings.targets.end()),
                         settings.targets.end());
  if (settings.targets.empty()) config.refuse("target_modules", "names no module");
  return settings;
}

/// PEFT's configuration with the keys that all its versions since 0.9 know: newer ones fill in the rest,
/// older ones stop at keys they do not know.
std::string config_text(const Adapter& adapter) {
  const AdapterSettings& settings = adapter.settings;
  std::vector<std::string> targets = settings.targets;
  std::sort(targets.begin(), targets.end());
  json config{
      {"alpha_pattern", json::object()},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", adapter.base_model},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"loftq_config", json::object()},
      {"lora_alpha", settings.alpha},
      {"lora_dropout", 0.0},
      {"megatron_config", nullptr},
      {"megatron_core", "megatron.core"},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"r", settings.rank},
      {"rank_pattern", json::object()},
      {"revision", nullptr},
      {"target_modules", targets},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", settings.rank_stabilised},
  };
  // PEFT declares alpha as an integer; a fractional one works there as well.
  if (settings.alpha == std::floor(settings.alpha) && std::abs(settings.alpha) < 1e15) {
    config["lora_alpha"] = static_cast<std::int64_t>(settings.alpha);
  }
  // A path need not be UTF-8, and it is there for people only.
  return config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

/// Names and shapes of all matrices that the settings and the model ask for.
std::map<std::string, std::vector<std::int64_t>> expected_shapes(const AdapterSettings& settings,
                                                                 const ModelFiles& base) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (std::int64_t layer = 0; layer < base.config().layers; ++layer) {
    for (const std::string& target : settings.targets) {
      const std::string module = "model.layers." + std::to_string(layer) + "." +
                                 std::string(find_target(target)->block) + "." + target;
      const std::vector<std::int64_t> weight = base.tensor(module + ".weight").shape();  // [out, in]
      shapes["base_model.model." + module + ".lora_A.weight"] = {settings.rank, weight[1]};
      shapes["base_model.model." + module + ".lora_B.weight"] = {weight[0], settings.rank};
    }
  }
  return shapes;
}

std::string first_names(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), names_listed_max); ++i)
    list += (i > 0 ? ", " : "") + names[i];
  if (names.size() > names_listed_max)
    list += ", and " + std::to_string(names.size() - names_listed_max) + " more";
  return list;
}

std::string text_of(at::IntArrayRef shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

void check_fit(const std::string& where, const Adapter& adapter, const ModelFiles& base) {
  if (adapter.base_content_hash && *adapter.base_content_hash != base.content_hash()) {
    throw InputError(where, "was made for another base model (content hash " + *adapter.base_content_hash +
                                "; that of " + base.path().string() + " is " + base.content_hash() + ")");
  }
  const auto expected = expected_shapes(adapter.settings, base);
  std::vector<std::string> missing, unexpected;
  for (const auto& [name, shape] : expected) {
    if (!adapter.tensors.contains(name)) missing.push_back(name);
  }
  for (const auto& [name, tensor] : adapter.tensors) {
    if (!expected.contains(name)) unexpected.push_back(name);
  }
  if (!missing.empty()) throw InputError(where, "keys are missing: " + first_names(missing));
  if (!unexpected.empty()) throw InputError(where, "has unexpected keys: " + first_names(unexpected));
  for (const auto& [name, tensor] : adapter.tensors) {
    const std::vector<std::int64_t>& shape = expected.at(name);
    if (tensor.sizes() != at::IntArrayRef(shape)) {
      throw InputError(where, name + " has the shape " + text_of(tensor.sizes()) + ", rank " +
                                  std::to_string(adapter.settings.rank) + " and the model ask for " +
                                  text_of(shape));
    }
  }
}

}  // namespace

double AdapterSettings::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rank_stabilised ? std::sqrt(r) : r);
}

void write_adapter(const std::filesystem::path& folder, const Adapter& adapter) {
  TextMap metadata{{"format", "pt"}};
  if (adapter.base_content_hash) metadata.emplace(hash_key, *adapter.base_content_hash);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // Without its configuration an adapter is not one: the old pair ends here, the new one begins with the last
  // file.
  if (!error) std::filesystem::remove(folder / config_name, error);
  if (error) throw RunError(folder.string() + ": cannot be written: " + error.message());
  write_file_durably(folder / weights_name, serialise_safetensors(adapter.tensors, metadata));
  write_file_durably(folder / config_name, config_text(adapter));
}

Adapter read_adapter(const std::filesystem::path& folder) {
  const std::filesystem::path config_file = folder / config_name;
  for (const std::filesystem::path& file : {config_file, folder / weights_name}) {
    if (!std::filesystem::exists(file)) {
      throw InputError(folder.string(),
                       "is not a PEFT adapter folder: it has no " + file.filename().string());
    }
  }
  const json document = read_json_object(config_file);
  const JsonObject config(config_file.string(), document);
  Adapter adapter;
  adapter.settings = read_settings(config);
  adapter.base_model = config.text_or("base_model_name_or_path", "");
  const auto weights = SafetensorsFile::open(folder / weights_name);
  for (const auto& [name, tensor] : weights->tensors())
    adapter.tensors.emplace(name, tensor.expand(at::kFloat));
  const auto hash = weights->metadata().find(hash_key);
  if (hash != weights->metadata().end()) adapter.base_content_hash = hash->second;
  return adapter;
}

Adapter read_adapter(const std::filesystem::path& folder, const ModelFiles& base) {
  Adapter adapter = read_adapter(folder);
  check_fit((folder / weights_name).string(), adapter, base);
  return adapter;
}

}  // namespace zerolock
