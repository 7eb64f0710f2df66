#pragma once
/// Files that are either there as a whole or not at all.

#include <filesystem>
#include <string_view>

namespace zerolock {

/// Writes a file so that its name stands for the old bytes or for all of the new ones, whenever the machine
/// stops: a temporary file beside it, fsync, rename, fsync of the folder (which must exist). Throws RunError
/// naming the file and the reason (a full disk, say); the temporary file is then removed.
void write_file_durably(const std::filesystem::path& file, std::string_view bytes);

}  // namespace zerolock
