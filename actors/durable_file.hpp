#pragma once
/// Files that are either whole or absent after a power cut.

#include <filesystem>
#include <functional>
#include <string_view>

namespace zerolock {

enum class DurableWrite { temporary_synced, renamed };

/// Writes FILE.tmp, syncs it, renames it to FILE and syncs the folder; `done` hears of the two middle points
/// and may throw. Throws RunError naming the file and the cause.
void write_durable_file(const std::filesystem::path& file, std::string_view bytes,
                        const std::function<void(DurableWrite)>& done);

/// Creates a folder with its parents and syncs those that changed. Throws RunError.
void make_durable_folder(const std::filesystem::path& folder);

}  // namespace zerolock
