#include "apps/bench/results_folder.hpp"

#include <cstdint>

#include "apps/command/disk_space.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t results_bytes = std::uint64_t{4} << 20U;  // far more than a table and its pictures

}  // namespace

void require_results_folder(const std::optional<std::filesystem::path>& out) {
  if (out) require_room_for_folder(*out, results_bytes, "--out " + out->string(), "choose another --out");
}

}  // namespace zerolock
