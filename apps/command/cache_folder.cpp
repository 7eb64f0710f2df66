#include "apps/command/cache_folder.hpp"

#include <cstdlib>

namespace zerolock {

namespace {

std::optional<std::filesystem::path> folder_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional(std::filesystem::path(value));
}

}  // namespace

std::optional<std::filesystem::path> cache_folder() {
  if (const auto own = folder_of("ZEROLOCK_CACHE")) return own;
  if (const auto shared = folder_of("XDG_CACHE_HOME")) return *shared / "zerolock";
  if (const auto home = folder_of("HOME")) return *home / ".cache" / "zerolock";
  return std::nullopt;
}

}  // namespace zerolock
