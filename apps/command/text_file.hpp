#pragma once
/// Whole text files: read at once, written so that they are there whole or not at all.

#include <filesystem>
#include <string>
#include <string_view>

namespace zerolock {

/// Throws InputError if the file cannot be read.
std::string read_text_file(const std::filesystem::path& file);

/// A reader sees the old text or the new one, whatever happens in between. Throws RunError.
void write_text_file(const std::filesystem::path& file, std::string_view text);

}  // namespace zerolock
