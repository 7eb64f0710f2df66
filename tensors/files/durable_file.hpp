#pragma once
/// Files that are either there as a whole or not at all.

#include <filesystem>
#include <functional>
#include <string_view>

namespace zerolock {

/// How far a durable write has come.
enum class DurableWrite { temporary_synced, renamed };

/// Writes a file so that its name stands for the old bytes or for all of the new ones, whenever the machine
/// stops: a temporary file beside it, fsync, rename, fsync of the folder (which must exist). Throws RunError
/// naming the file and the reason (a full disk, say); the temporary file is then removed. `reached` hears of
/// the two points in between, and may throw.
void write_file_durably(const std::filesystem::path& file, std::string_view bytes,
                        const std::function<void(DurableWrite)>& reached = {});

/// Creates a folder with its parents and brings those that changed to disk. Throws RunError.
void make_folder_durably(const std::filesystem::path& folder);

}  // namespace zerolock
