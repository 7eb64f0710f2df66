#include "actors/core/first_placement.hpp"

#include <algorithm>
#include <utility>

namespace zerolock {
namespace {

bool contains(const std::vector<std::string>& members, const std::string& node) {
  return std::find(members.begin(), members.end(), node) != members.end();
}

}  // namespace

FirstPlacement::FirstPlacement(FirstPlacementSetup setup, std::chrono::nanoseconds now)
    : setup_(std::move(setup)), waits_since_(now) {}

bool FirstPlacement::ready(std::uint64_t candidates, const std::vector<std::string>& members) const {
  return candidates >= setup_.executors_wanted &&
         std::all_of(setup_.awaited.begin(), setup_.awaited.end(),
                     [&](const std::string& node) { return contains(members, node); });
}

std::optional<std::string> FirstPlacement::over(const std::vector<std::string>& members,
                                                std::chrono::nanoseconds now) const {
  if (now - waits_since_ < setup_.awaited_max) return std::nullopt;
  for (const std::string& node : setup_.awaited) {
    if (contains(members, node)) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(setup_.awaited_max);
    return "the layers were cut for executor " + node + ", which did not come again within " +
           std::to_string(seconds.count()) + " s";
  }
  return std::nullopt;
}

std::optional<std::string> FirstPlacement::lost(const std::string& cause) {
  if (++losses_ <= setup_.losses_max) return std::nullopt;
  return "executors were lost " + std::to_string(losses_) +
         " times before the run began, the last time because " + cause;
}

}  // namespace zerolock
