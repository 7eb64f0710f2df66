#include "apps/command/random_model.hpp"

#include <spdlog/spdlog.h>

#include "apps/command/cache_folder.hpp"
#include "apps/command/disk_space.hpp"
#include "apps/command/nearest_name.hpp"
#include "apps/command/option_table.hpp"
#include "apps/command/text_file.hpp"
#include "apps/command/unfinished_folder.hpp"
#include "data/byte_tokenizer.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/json_object.hpp"
#include "tensors/files/model_config.hpp"
#include "tensors/files/random_weights.hpp"

namespace zerolock {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "random:";
constexpr std::uint64_t weights_seed = 0;
constexpr double customary_range = 0.02;  // transformers' default
constexpr std::uint64_t other_files_bytes = std::uint64_t{1} << 20U;

/// What stands behind the prefix.
std::string shape_name(const fs::path& given) {
  return given.string().substr(prefix.size());
}

bool names_config_file(const std::string& shape) {
  return shape.ends_with(".json");
}

nlohmann::ordered_json config_of(const std::string& shape) {
  if (names_config_file(shape)) {
    static_cast<void>(read_json_object(shape));  // for its complaints
    return nlohmann::ordered_json::parse(read_text_file(shape));
  }
  if (auto config = random_model_config(shape)) return *config;
  const std::vector<std::string> names = random_model_names();
  throw InputError("--model random:" + shape, "no such shape" + suggestion(shape, names, "") + "; known: " +
                                                  joined(names) + ", or the path of a config.json");
}

/// Readable, and different for different configs.
std::string folder_name(const std::string& shape, const nlohmann::ordered_json& config) {
  const std::string decides = std::to_string(random_weights_format) + " " + std::to_string(weights_seed) +
                              " " + nlohmann::json(config).dump() + byte_tokenizer_json();
  const std::string name = names_config_file(shape) ? "config" : shape;
  return name + "-" + sha256_of(decides).substr(0, 16);
}

double initializer_range(const nlohmann::ordered_json& config, const std::string& where) {
  constexpr double range_max = 10;
  if (!config.contains("initializer_range")) return customary_range;
  const auto& value = config.at("initializer_range");
  if (value.is_number() && value.get<double>() > 0 && value.get<double>() <= range_max) {
    return value.get<double>();
  }
  throw InputError(where, "initializer_range is " + value.dump() + ", must be above 0 and at most 10");
}

void make(const fs::path& target, const std::string& where, nlohmann::ordered_json config) {
  const double range = initializer_range(config, where);
  config["torch_dtype"] = "bfloat16";
  // Special tokens of the true tokenizer; where bytes are the tokens they would be out of range.
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config.erase(key);
  const char* const advice = "make room there, or set ZEROLOCK_CACHE";
  require_disk_space(target, other_files_bytes, where, advice);  // before the first file is begun
  const UnfinishedFolder folder(target);
  write_text_file(folder.path() / "config.json", config.dump(2) + "\n");
  const ModelConfig shape = [&] {
    try {
      return read_model_config(folder.path() / "config.json");
    } catch (const InputError& error) {
      const std::string file = (folder.path() / "config.json").string();
      std::string message = error.what();
      if (message.starts_with(file)) message.replace(0, file.size(), where);
      throw InputError(message);
    }
  }();
  if (shape.vocabulary < byte_tokenizer_vocabulary) {
    throw InputError(where, "vocab_size is " + std::to_string(shape.vocabulary) +
                                "; each byte is a token, so " + std::to_string(byte_tokenizer_vocabulary) +
                                " are needed");
  }
  const std::uint64_t bytes = random_weights_bytes(shape) + other_files_bytes;
  require_disk_space(target, bytes, where, advice);
  spdlog::info("making random weights, {} MiB, once: {}", bytes >> 20U, target.string());
  write_text_file(folder.path() / "tokenizer.json", byte_tokenizer_json());
  write_random_weights(folder.path() / "model.safetensors", shape, range, weights_seed);
  folder.rename_to(target, UnfinishedFolder::Existing::stays);
}

}  // namespace

bool is_random_model(const fs::path& given) {
  return given.string().starts_with(prefix);
}

std::string absolute_model_text(const fs::path& given) {
  const auto absolute = [](const fs::path& path) { return fs::absolute(path).lexically_normal().string(); };
  if (!is_random_model(given)) return absolute(given);
  const std::string shape = shape_name(given);
  return std::string(prefix) + (names_config_file(shape) ? absolute(shape) : shape);
}

fs::path model_location(const fs::path& given) {
  if (!is_random_model(given)) return given;
  const std::string shape = shape_name(given);
  const nlohmann::ordered_json config = config_of(shape);
  const auto cache = cache_folder();
  if (!cache) {
    throw InputError("--model " + given.string(),
                     "there is no place to keep its weights; set ZEROLOCK_CACHE to a folder");
  }
  const fs::path target = *cache / "random-models" / folder_name(shape, config);
  const std::string where = names_config_file(shape) ? shape : "--model " + given.string();
  if (!fs::exists(target / "config.json")) make(target, where, config);
  return target;
}

}  // namespace zerolock
