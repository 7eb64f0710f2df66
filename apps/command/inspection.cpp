#include "apps/command/inspection.hpp"

#include <charconv>
#include <map>
#include <optional>

#include "actors/checkpoint_files.hpp"
#include "actors/journal_file.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/run_folder.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/adapter_files.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {

namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Runs a part of an inspection; an InputError there is a finding, not a failure of the command.
template <class Part>
void look(Inspection& inspection, const Part& part) {
  try {
    part();
  } catch (const InputError& error) {
    inspection.problems.emplace_back(error.what());
  }
}

/// "stage-3" with prefix "stage-" is 3; nothing for other names.
std::optional<std::uint64_t> number_after(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

void inspect_safetensors(const fs::path& path, Inspection& inspection) {
  look(inspection, [&] {
    const auto file = SafetensorsFile::open(path);
    std::map<std::string, std::uint64_t> formats;
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : file->tensors()) {
      ++formats[std::string(to_string(tensor.format()))];
      bytes += tensor.stored_bytes();
    }
    inspection.facts["tensors"] = file->tensors().size();
    inspection.facts["tensor_bytes"] = bytes;
    inspection.facts["formats"] = formats;
    inspection.facts["metadata"] = file->metadata();
    inspection.facts["sha256"] = sha256_of_file(path);
  });
}

void inspect_model(const fs::path& path, Inspection& inspection) {
  look(inspection, [&] {
    const auto files = ModelFiles::open(path);
    const ModelConfig& config = files->config();
    std::map<std::string, std::uint64_t> formats;
    std::uint64_t bytes = 0;
    for (const std::string& name : files->names()) {
      const StoredTensor tensor = files->tensor(name);
      ++formats[std::string(to_string(tensor.format()))];
      bytes += tensor.stored_bytes();
    }
    inspection.facts["family"] = config.family == ModelFamily::llama ? "llama" : "qwen2";
    inspection.facts["layers"] = config.layers;
    inspection.facts["width"] = config.width;
    inspection.facts["heads"] = config.heads;
    inspection.facts["key_value_heads"] = config.key_value_heads;
    inspection.facts["vocabulary"] = config.vocabulary;
    inspection.facts["context_length"] = config.context_length;
    inspection.facts["tied_embeddings"] = config.tied_embeddings;
    inspection.facts["tensors"] = files->names().size();
    inspection.facts["tensor_bytes"] = bytes;
    inspection.facts["formats"] = formats;
    inspection.facts["sha256"] = files->content_hash();
    const auto tokenizer = Tokenizer::open(path);
    inspection.facts["tokenizer_vocabulary"] = tokenizer->vocabulary();
    check_vocabulary(config, *tokenizer, path.string());
  });
}

void inspect_adapter(const fs::path& path, Inspection& inspection) {
  look(inspection, [&] {
    const Adapter adapter = read_adapter(path);
    inspection.facts["rank"] = adapter.settings.rank;
    inspection.facts["lora_alpha"] = adapter.settings.alpha;
    inspection.facts["rslora"] = adapter.settings.rank_stabilised;
    inspection.facts["targets"] = adapter.settings.targets;
    inspection.facts["tensors"] = adapter.tensors.size();
    inspection.facts["base_model"] = adapter.base_model;
    inspection.facts["base_sha256"] =
        adapter.base_content_hash ? ordered_json(*adapter.base_content_hash) : ordered_json();
    inspection.facts["sha256"] = sha256_of_file(path / "adapter_model.safetensors");
  });
}

/// All windows of one stage, as {"window", "good"}.
ordered_json inspect_stage(const fs::path& root, StageIndex stage, Inspection& inspection) {
  ordered_json windows = ordered_json::array();
  for (const WindowIndex window : checkpoint_windows(root, stage)) {
    const std::string problem = verify_checkpoint(root, stage, window);
    if (!problem.empty()) inspection.problems.push_back(problem);
    windows.push_back({{"window", window.value}, {"good", problem.empty()}});
  }
  return {{"stage", stage.value}, {"checkpoints", windows}};
}

void inspect_checkpoints(const fs::path& root, Inspection& inspection) {
  ordered_json stages = ordered_json::array();
  const std::vector<StageIndex> found = checkpoint_stages(root);
  for (const StageIndex stage : found) stages.push_back(inspect_stage(root, stage, inspection));
  inspection.facts["stages"] = stages;
  const auto durable = common_durable_window(root, found.size());
  inspection.facts["durable"] = durable ? ordered_json(durable->value) : ordered_json();
}

/// What the latest session has promised and learnt.
void inspect_journal(const fs::path& file, ordered_json& facts) {
  const JournalContent content = read_journal(file);
  facts["records"] = content.records.size();
  facts["torn"] = content.torn;  // in the middle of a last record, which counts for nothing
  const auto state = replay(content.records);
  if (!state) return;
  facts["session"] = state->session;
  facts["over"] = state->over;
  facts["granted"] = state->granted ? ordered_json(state->granted->value) : ordered_json();
  ordered_json stages = ordered_json::array();
  for (const auto& [stage, window] : state->durable) {
    ordered_json entry = {{"stage", stage.value}, {"durable", window.value}};
    const auto placed = state->placed.find(stage);
    if (placed != state->placed.end()) {
      entry["executor"] = placed->second.node;
      entry["placement"] = placed->second.placement.value;
    }
    stages.push_back(std::move(entry));
  }
  facts["stages"] = std::move(stages);
}

void inspect_run(const fs::path& path, Inspection& inspection) {
  const RunFolder folder(path);
  look(inspection, [&] {
    const RunRecord record = folder.read_record();
    inspection.facts["run"] = record.to_json();
    Inspection checkpoints;
    inspect_checkpoints(folder.checkpoints(record.partition), checkpoints);
    inspection.facts["checkpoints"] = checkpoints.facts;
    inspection.problems.insert(inspection.problems.end(), checkpoints.problems.begin(),
                               checkpoints.problems.end());
  });
  if (fs::exists(folder.journal())) {
    look(inspection, [&] { inspect_journal(folder.journal(), inspection.facts["journal"]); });
  }
  if (!fs::exists(folder.summary())) return;
  look(inspection, [&] {
    const auto summary = ordered_json::parse(read_text_file(folder.summary()), nullptr, false);
    if (!summary.is_object() || !summary.contains("adapter_sha256")) {
      throw InputError(folder.summary().string(), "not a summary");
    }
    const std::string expected = summary["adapter_sha256"].get<std::string>();
    const fs::path weights = folder.adapter() / "adapter_model.safetensors";
    const std::string found = sha256_of_file(weights);
    inspection.facts["adapter_sha256"] = found;
    if (found != expected)
      throw InputError(weights.string(), "has SHA-256 " + found + ", the summary says " + expected);
  });
}

void inspect_folder(const fs::path& path, Inspection& inspection) {
  const std::string name = path.filename().string();
  const auto kind = [&inspection](const char* kind_name) { inspection.facts["kind"] = kind_name; };
  if (fs::exists(path / "run.json")) {
    kind("run");
    return inspect_run(path, inspection);
  }
  if (fs::exists(path / "adapter_config.json")) {
    kind("adapter");
    return inspect_adapter(path, inspection);
  }
  if (fs::exists(path / "config.json")) {
    kind("model");
    return inspect_model(path, inspection);
  }
  const auto window = number_after(name, "window-");
  const auto stage_of_window = number_after(path.parent_path().filename().string(), "stage-");
  if (window && stage_of_window) {
    kind("checkpoint");
    const std::string problem = verify_checkpoint(path.parent_path().parent_path(),
                                                  StageIndex{*stage_of_window}, WindowIndex{*window});
    if (!problem.empty()) inspection.problems.push_back(problem);
    inspection.facts["stage"] = *stage_of_window;
    inspection.facts["window"] = *window;
    return;
  }
  if (const auto stage = number_after(name, "stage-")) {
    kind("checkpoints of a stage");
    inspection.facts.update(inspect_stage(path.parent_path(), StageIndex{*stage}, inspection));
    return;
  }
  if (!checkpoint_stages(path).empty()) {
    kind("checkpoints");
    return inspect_checkpoints(path, inspection);
  }
  throw InputError(path.string(), "holds no run, model, adapter or checkpoint");
}

}  // namespace

Inspection inspect_path(const fs::path& given) {
  std::error_code error;
  const fs::path path = fs::absolute(given).lexically_normal();
  // A trailing slash leaves an empty last component, which would hide the folder's name.
  const fs::path clean = path.has_filename() ? path : path.parent_path();
  if (!fs::exists(clean, error)) throw InputError(given.string(), "there is no such file or folder");
  Inspection inspection;
  inspection.facts = {{"kind", ""}, {"path", clean.string()}};
  if (fs::is_directory(clean)) {
    inspect_folder(clean, inspection);
  } else if (clean.extension() == ".gguf") {
    inspection.facts["kind"] = "model";
    inspect_model(clean, inspection);
  } else if (clean.extension() == ".safetensors") {
    inspection.facts["kind"] = "safetensors";
    inspect_safetensors(clean, inspection);
  } else {
    throw InputError(given.string(), "is neither a folder nor a .gguf or .safetensors file");
  }
  inspection.facts["good"] = inspection.problems.empty();
  inspection.facts["problems"] = inspection.problems;
  return inspection;
}

}  // namespace zerolock
