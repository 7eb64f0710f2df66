#pragma once
/// Where this user's machine keeps what can be made or fetched again.

#include <filesystem>
#include <optional>

namespace zerolock {

/// $ZEROLOCK_CACHE, else zerolock in $XDG_CACHE_HOME, else ~/.cache/zerolock. Nothing where none of the three
/// variables is set. The folder need not exist.
std::optional<std::filesystem::path> cache_folder();

}  // namespace zerolock
