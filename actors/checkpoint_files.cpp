#include "actors/checkpoint_files.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/durable_file.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view state_file = "state.safetensors";
constexpr std::string_view manifest_file = "manifest.json";
constexpr std::uintmax_t manifest_bytes_max = 64 * 1024;

std::optional<std::uint64_t> number_after(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = name.data() + name.size();
  const auto [parsed_to, error] = std::from_chars(name.data() + prefix.size(), end, value);
  if (error != std::errc() || parsed_to != end) return std::nullopt;
  return value;
}

/// The numbers of all folders "PREFIX<number>" below `folder`, ascending.
std::vector<std::uint64_t> numbered_folders(const fs::path& folder, std::string_view prefix) {
  std::vector<std::uint64_t> numbers;
  std::error_code missing;
  for (const auto& item : fs::directory_iterator(folder, missing)) {
    if (!item.is_directory()) continue;
    if (const auto number = number_after(item.path().filename().string(), prefix)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// A copy that owns its memory: the file may be retired while the state lives.
at::Tensor owned_copy(const StoredTensor& tensor, const fs::path& file) {
  const std::optional<at::ScalarType> type = scalar_type_of(tensor.format());
  if (!type)
    throw InputError(file.string(), "tensor " + tensor.name() + " has a type that no checkpoint has");
  at::Tensor copy = at::empty(tensor.shape(), at::TensorOptions().dtype(*type));
  ZEROLOCK_INVARIANT(copy.nbytes() == tensor.stored_bytes(), "a plain tensor is stored as it lies in memory");
  if (tensor.stored_bytes() > 0) std::memcpy(copy.data_ptr(), tensor.data(), tensor.stored_bytes());
  return copy;
}

struct Manifest {
  std::uint64_t state_bytes = 0;
  std::string state_sha256;
};

std::string manifest_text(StageIndex stage, WindowIndex window, const Manifest& manifest) {
  const nlohmann::json body = {
      {"format", "zerolock checkpoint"},
      {"version", 1},
      {"stage", stage.value},
      {"window", window.value},
      {"files",
       {{std::string(state_file), {{"bytes", manifest.state_bytes}, {"sha256", manifest.state_sha256}}}}}};
  const nlohmann::json whole = {{"checkpoint", body}, {"sha256", sha256_of(body.dump())}};
  return whole.dump(2) + "\n";
}

Manifest read_manifest(const fs::path& file, StageIndex stage, WindowIndex window) {
  const auto whole = nlohmann::json::parse(read_file(file, manifest_bytes_max), nullptr, false);
  if (whole.is_discarded()) throw InputError(file.string(), "is not JSON");
  try {
    const nlohmann::json& body = whole.at("checkpoint");
    if (whole.at("sha256").get<std::string>() != sha256_of(body.dump())) {
      throw InputError(file.string(), "does not match its own checksum");
    }
    if (body.at("version").get<int>() != 1) throw InputError(file.string(), "has an unknown version");
    if (body.at("stage").get<std::uint64_t>() != stage.value)
      throw InputError(file.string(), "is of another stage");
    if (body.at("window").get<std::uint64_t>() != window.value) {
      throw InputError(file.string(), "is of another window");
    }
    const nlohmann::json& state = body.at("files").at(std::string(state_file));
    return {state.at("bytes").get<std::uint64_t>(), state.at("sha256").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(file.string(), std::string("is not a checkpoint manifest: ") + error.what());
  }
}

/// The bytes of the state file, held against the size and hash in the manifest.
std::string checked_state(const fs::path& folder, const Manifest& manifest) {
  const fs::path file = folder / state_file;
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) throw InputError(file.string(), "cannot be read: " + error.message());
  if (size != manifest.state_bytes) {
    throw InputError(file.string(), "has " + std::to_string(size) + " bytes, its manifest says " +
                                        std::to_string(manifest.state_bytes));
  }
  std::string bytes = read_file(file, manifest.state_bytes);
  if (sha256_of(bytes) != manifest.state_sha256) {
    throw InputError(file.string(), "does not match the checksum in its manifest");
  }
  return bytes;
}

std::string checked_state(const fs::path& folder, StageIndex stage, WindowIndex window) {
  return checked_state(folder, read_manifest(folder / manifest_file, stage, window));
}

bool holds_same(const fs::path& folder, StageIndex stage, WindowIndex window, const Manifest& wanted) {
  if (!fs::exists(folder / manifest_file)) return false;
  try {
    const Manifest found = read_manifest(folder / manifest_file, stage, window);
    if (found.state_sha256 != wanted.state_sha256) return false;
    static_cast<void>(checked_state(folder, found));
    return true;
  } catch (const InputError&) {
    return false;  // it is about to be replaced
  }
}

/// The manifest goes first, so that a removal that is cut short leaves nothing that looks complete; what
/// interrupted writes have left goes along.
void remove_checkpoint(const fs::path& folder) {
  remove_durable(folder / manifest_file);
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& item : fs::directory_iterator(folder, missing)) files.push_back(item.path());
  for (const fs::path& file : files) remove_durable(file);
  remove_durable(folder);
}

std::optional<std::int64_t> layer_of(const std::string& name) {
  constexpr std::string_view marker = ".layers.";
  const auto at = name.find(marker);
  if (at == std::string::npos) return std::nullopt;
  std::int64_t layer = 0;
  const char* begin = name.data() + at + marker.size();
  const auto [parsed_to, error] = std::from_chars(begin, name.data() + name.size(), layer);
  if (error != std::errc() || parsed_to == begin) return std::nullopt;
  return layer;
}

}  // namespace

fs::path stage_checkpoint_folder(const fs::path& root, StageIndex stage) {
  return root / ("stage-" + std::to_string(stage.value));
}

fs::path checkpoint_folder(const fs::path& root, StageIndex stage, WindowIndex window) {
  std::string number = std::to_string(window.value);
  if (number.size() < 6) number.insert(0, 6 - number.size(), '0');
  return stage_checkpoint_folder(root, stage) / ("window-" + number);
}

std::vector<StageIndex> checkpoint_stages(const fs::path& root) {
  std::vector<StageIndex> stages;
  for (const auto number : numbered_folders(root, "stage-")) stages.push_back(StageIndex{number});
  return stages;
}

std::vector<WindowIndex> checkpoint_windows(const fs::path& root, StageIndex stage) {
  std::vector<WindowIndex> windows;
  for (const auto number : numbered_folders(stage_checkpoint_folder(root, stage), "window-")) {
    windows.push_back(WindowIndex{number});
  }
  return windows;
}

namespace {

void write_state_file(const fs::path& root, StageIndex stage, WindowIndex window, const std::string& bytes,
                      const CheckpointProgress& progress) {
  const Manifest manifest{bytes.size(), sha256_of(bytes)};
  const fs::path folder = checkpoint_folder(root, stage, window);
  if (holds_same(folder, stage, window, manifest)) {
    // An earlier try may have failed when all was there and only the names were not on disk yet.
    sync_folder(folder);
    sync_folder(folder.parent_path());
    return;
  }
  if (fs::exists(folder)) remove_checkpoint(folder);
  make_folder_durably(folder);
  write_file_durably(folder / state_file, bytes, [&](DurableWrite done) {
    progress(done == DurableWrite::temporary_synced ? FaultPoint::checkpoint_temp
                                                    : FaultPoint::checkpoint_rename);
  });
  write_file_durably(folder / manifest_file, manifest_text(stage, window, manifest), [](DurableWrite) {});
  progress(FaultPoint::manifest);
}

}  // namespace

void write_checkpoint(const fs::path& root, StageIndex stage, const StageState& state,
                      const CheckpointProgress& progress) {
  write_state_file(root, stage, state.window, serialise_safetensors(state.tensors, state.metadata), progress);
}

std::string read_checkpoint_bytes(const fs::path& root, StageIndex stage, WindowIndex window) {
  return checked_state(checkpoint_folder(root, stage, window), stage, window);
}

void write_checkpoint_bytes(const fs::path& root, StageIndex stage, WindowIndex window,
                            const std::string& bytes) {
  write_state_file(root, stage, window, bytes, [](FaultPoint) {});
  SafetensorsFile::open(checkpoint_folder(root, stage, window) / state_file);
}

StageState read_checkpoint(const fs::path& root, StageIndex stage, WindowIndex window) {
  const fs::path folder = checkpoint_folder(root, stage, window);
  static_cast<void>(checked_state(folder, stage, window));
  const auto file = SafetensorsFile::open(folder / state_file);
  StageState state;
  state.window = window;
  state.metadata = file->metadata();
  for (const auto& [name, tensor] : file->tensors()) state.tensors[name] = owned_copy(tensor, file->path());
  return state;
}

std::string verify_checkpoint(const fs::path& root, StageIndex stage, WindowIndex window) {
  try {
    const fs::path folder = checkpoint_folder(root, stage, window);
    static_cast<void>(checked_state(folder, stage, window));
    SafetensorsFile::open(folder / state_file);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

RestoredCheckpoint restore_newest_checkpoint(const fs::path& root, StageIndex stage, WindowIndex at_most) {
  RestoredCheckpoint restored;
  auto windows = checkpoint_windows(root, stage);
  std::reverse(windows.begin(), windows.end());
  for (const WindowIndex window : windows) {
    if (window > at_most) continue;
    try {
      restored.state = read_checkpoint(root, stage, window);
      return restored;
    } catch (const InputError& error) {
      restored.problems.emplace_back(error.what());
    }
  }
  return restored;
}

void retire_checkpoints(const fs::path& root, StageIndex stage, WindowIndex line) {
  auto windows = checkpoint_windows(root, stage);
  std::reverse(windows.begin(), windows.end());
  bool kept_older = false;
  for (const WindowIndex window : windows) {
    if (window >= line) continue;
    if (!kept_older && verify_checkpoint(root, stage, window).empty()) {
      kept_older = true;
    } else {
      remove_checkpoint(checkpoint_folder(root, stage, window));
    }
  }
}

void discard_checkpoints_after(const fs::path& root, StageIndex stage, WindowIndex window) {
  for (const WindowIndex found : checkpoint_windows(root, stage)) {
    if (found > window) remove_checkpoint(checkpoint_folder(root, stage, found));
  }
}

std::optional<WindowIndex> common_durable_window(const fs::path& root, std::uint64_t stages) {
  if (stages == 0) return std::nullopt;
  auto candidates = checkpoint_windows(root, StageIndex{0});
  std::reverse(candidates.begin(), candidates.end());
  for (const WindowIndex window : candidates) {
    bool everywhere = true;
    for (std::uint64_t k = 0; k < stages && everywhere; ++k) {
      everywhere = verify_checkpoint(root, StageIndex{k}, window).empty();
    }
    if (everywhere) return window;
  }
  return std::nullopt;
}

StageState merge_states(const std::vector<StageState>& states) {
  ZEROLOCK_INVARIANT(!states.empty(), "there is a state to merge");
  StageState merged;
  merged.window = states.front().window;
  merged.metadata = states.front().metadata;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const std::string where = "state of stage " + std::to_string(k);
    if (states[k].window != merged.window)
      throw InputError(where, "is of another window than that of stage 0");
    if (states[k].metadata != merged.metadata)
      throw InputError(where, "disagrees with stage 0 on its metadata");
    for (const auto& [name, tensor] : states[k].tensors) {
      if (!merged.tensors.emplace(name, tensor).second)
        throw InputError(where, name + " belongs to two stages");
    }
  }
  return merged;
}

StageState cut_state(const StageState& merged, const LayerRange& layers) {
  StageState cut;
  cut.window = merged.window;
  cut.metadata = merged.metadata;
  for (const auto& [name, tensor] : merged.tensors) {
    const auto layer = layer_of(name);
    if (!layer)
      throw InputError(name, "belongs to no layer, so a state that has it cannot be cut for other stages");
    if (*layer >= layers.first && *layer < layers.last) cut.tensors.emplace(name, tensor);
  }
  return cut;
}

}  // namespace zerolock
