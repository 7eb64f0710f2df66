#pragma once
/// Models of true shapes with random weights, made once and kept in the cache: what a published model costs
/// in memory and time can then be measured on a machine that does not have it. What they compute means
/// nothing.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace zerolock {

/// Names behind "random:", with the shapes of the published models' config.json.
std::vector<std::string> random_model_names();
/// The config.json behind a name; nothing for others.
std::optional<nlohmann::ordered_json> random_model_config(const std::string& name);

/// Whether what a user gave as a model is "random:NAME" or "random:PATH/config.json".
bool is_random_model(const std::filesystem::path& given);

/// The text that stands for the model wherever the process starts: an absolute path, or "random:..." with
/// one.
std::string absolute_model_text(const std::filesystem::path& given);

/// Where the model lies that a user gave: the path itself, or the folder of a random model in the cache, a
/// Hugging Face folder with bfloat16 weights and a tokenizer whose tokens are bytes. One that is not there
/// yet is made, whole or not at all; the log says before where and how large. The same config gives the same
/// bytes. Throws InputError for unknown names, configs that are refused, and a disk without room.
std::filesystem::path model_location(const std::filesystem::path& given);

}  // namespace zerolock
