#pragma once
/// The results of a benchmark as one page.

#include <filesystem>
#include <string>

namespace zerolock {

/// The page of a bench's JSON file, or of all such files in a folder with the pictures (.svg) that lie there.
/// Throws InputError if there is none, or if one is not what `zerolock bench` writes.
std::string bench_report(const std::filesystem::path& file_or_folder);

}  // namespace zerolock
