#pragma once
/// Checkpoints on disk: ROOT/stage-K/window-000012/{state.safetensors, manifest.json}. A checkpoint is
/// complete once its manifest is there; the manifest carries the sizes and hashes of everything else and of
/// itself.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/fault_point.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// Called after each stage of writing, in the writing thread; may throw, as a failing disk would.
using CheckpointProgress = std::function<void(FaultPoint)>;

std::filesystem::path stage_checkpoint_folder(const std::filesystem::path& root, StageIndex stage);
std::filesystem::path checkpoint_folder(const std::filesystem::path& root, StageIndex stage,
                                        WindowIndex window);

/// Stages that have a folder, ascending. Empty if there is no such root.
std::vector<StageIndex> checkpoint_stages(const std::filesystem::path& root);
/// Windows of which there is a folder, complete or not, ascending.
std::vector<WindowIndex> checkpoint_windows(const std::filesystem::path& root, StageIndex stage);

/// Writes state.window's checkpoint: each file under a temporary name, fsync, rename, fsync of the folder;
/// the manifest last. A good checkpoint with the same content is left alone. Throws RunError naming the file
/// and the cause.
void write_checkpoint(
    const std::filesystem::path& root, StageIndex stage, const StageState& state,
    const CheckpointProgress& progress = [](FaultPoint) {});

/// The verified state file of a checkpoint, for a copy elsewhere. Throws InputError as read_checkpoint.
std::string read_checkpoint_bytes(const std::filesystem::path& root, StageIndex stage, WindowIndex window);
/// Writes such a copy, which is a checkpoint like any other. Throws InputError if the bytes are no state,
/// RunError as write_checkpoint.
void write_checkpoint_bytes(const std::filesystem::path& root, StageIndex stage, WindowIndex window,
                            const std::string& bytes);

/// Reads and verifies. Throws InputError naming the bad file and what is wrong with it.
StageState read_checkpoint(const std::filesystem::path& root, StageIndex stage, WindowIndex window);
/// Empty if the checkpoint is good, else one line that names the bad file and what is wrong with it.
std::string verify_checkpoint(const std::filesystem::path& root, StageIndex stage, WindowIndex window);

/// The newest good checkpoint and what was wrong with newer ones.
struct RestoredCheckpoint {
  std::optional<StageState> state;    // none: no good one
  std::vector<std::string> problems;  // one line for each bad one, newest first
};
RestoredCheckpoint restore_newest_checkpoint(const std::filesystem::path& root, StageIndex stage,
                                             WindowIndex at_most);

/// Removes what no restart can need once the recovery line is at `line`: all but the windows from there on
/// and the newest good one before it.
void retire_checkpoints(const std::filesystem::path& root, StageIndex stage, WindowIndex line);
/// Removes every window after `window`: they belong to a future that will be trained again.
void discard_checkpoints_after(const std::filesystem::path& root, StageIndex stage, WindowIndex window);

/// The newest window of which stages 0..stages-1 all have a good checkpoint: where a run can be taken up
/// again.
std::optional<WindowIndex> common_durable_window(const std::filesystem::path& root, std::uint64_t stages);

/// One state with all layers, from the states of all stages at the same window. Throws InputError if a name
/// comes twice, windows or metadata disagree.
StageState merge_states(const std::vector<StageState>& states);
/// The part of a merged state that belongs to layers first..last-1. Throws InputError for a tensor whose name
/// has no layer: it belongs to a stage as a whole and cannot be cut.
StageState cut_state(const StageState& merged, const LayerRange& layers);

}  // namespace zerolock
