#pragma once
/// Whether a disk has room, asked before anything is written.

#include <cstdint>
#include <filesystem>
#include <string>

namespace zerolock {

/// The nearest folder at or above `path` that exists: what creating `path` would write to.
std::filesystem::path existing_parent(std::filesystem::path path);

/// Throws InputError that begins with `where` and ends with `advice` if the disk of `path`, which need not
/// exist yet, has fewer bytes free.
void require_disk_space(const std::filesystem::path& path, std::uint64_t bytes, const std::string& where,
                        const std::string& advice);

/// The same, and throws InputError where `folder` is there and no folder, or cannot be made or written to.
void require_room_for_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                             const std::string& where, const std::string& advice);

}  // namespace zerolock
