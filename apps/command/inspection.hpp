#pragma once
/// What a file or folder holds, and whether it is good.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerolock {

struct Inspection {
  nlohmann::ordered_json facts;       // "kind", "path" and what there is to know
  std::vector<std::string> problems;  // one line each; empty: all good
};

/// Recognises a run folder, a folder of checkpoints, a single checkpoint, an adapter folder, a model folder,
/// a GGUF file and a safetensors file. Reads everything that has a checksum. Throws InputError if there is no
/// such path or if it is none of these.
Inspection inspect_path(const std::filesystem::path& path);

}  // namespace zerolock
