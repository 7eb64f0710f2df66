#pragma once
/// Files that are either there as a whole or not at all. All of it goes through
/// tensors/files/file_operations.hpp, so that every step can be made to fail.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
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

/// Creates a folder with its parents and brings those that changed to disk. A folder whose parent could not
/// be brought to disk is removed again, so that another try begins with it. Throws RunError.
void make_folder_durably(const std::filesystem::path& folder);

/// Brings the names in a folder to disk: what was created, renamed or removed there. Throws RunError.
void sync_folder(const std::filesystem::path& folder);

/// Removes a file, or a folder that is empty; nothing there is no error. Throws RunError naming it and the
/// reason.
void remove_durable(const std::filesystem::path& file);

/// All bytes of a file. Throws InputError naming the file if it cannot be read or is longer than `bytes_max`;
/// no more than its size is allocated.
std::string read_file(const std::filesystem::path& file, std::uint64_t bytes_max);

}  // namespace zerolock
