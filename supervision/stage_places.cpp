#include "supervision/stage_places.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

std::vector<std::vector<StageIndex>> spread_stages(std::uint64_t stages, std::uint64_t executors) {
  ZEROLOCK_INVARIANT(executors > 0, "somebody has joined");
  std::vector<std::vector<StageIndex>> spread(executors);
  const std::uint64_t each = stages / executors;
  const std::uint64_t more = stages % executors;
  std::uint64_t next = 0;
  for (std::uint64_t executor = 0; executor < executors; ++executor) {
    const std::uint64_t count = each + (executor < more ? 1 : 0);
    for (std::uint64_t i = 0; i < count; ++i) spread[executor].push_back(StageIndex{next++});
  }
  return spread;
}

PlannedPlaces places_on(const std::vector<std::string>& executors, std::uint64_t stages,
                        const std::vector<std::string>& hosts_before) {
  const auto is_here = [&executors](const std::string& node) {
    return std::find(executors.begin(), executors.end(), node) != executors.end();
  };
  PlannedPlaces places;
  for (const std::string& node : executors) places.emplace_back(node, std::vector<StageIndex>{});
  if (hosts_before.size() == stages && std::all_of(hosts_before.begin(), hosts_before.end(), is_here)) {
    for (auto& [node, hosted] : places) {
      for (std::uint64_t stage = 0; stage < stages; ++stage) {
        if (hosts_before[stage] == node) hosted.push_back(StageIndex{stage});
      }
    }
    return places;
  }
  const auto spread = spread_stages(stages, executors.size());
  for (std::size_t i = 0; i < executors.size(); ++i) places[i].second = spread[i];
  return places;
}

Assignment assignment_for(const Assignment& common, const Neighbour& coordinator,
                          const std::vector<PlacedStage>& own, const std::vector<StagePlace>& places) {
  ZEROLOCK_INVARIANT(!own.empty() && places.size() == common.partition.size(), "a place for each stage");
  const auto is_own = [&own](StageIndex stage) {
    return std::any_of(own.begin(), own.end(),
                       [stage](const PlacedStage& placed) { return placed.stage == stage; });
  };
  Assignment assignment = common;
  for (const PlacedStage& placed : own) {
    assignment.hosted.push_back(placed.stage);
    assignment.placements.push_back(placed.placement);
    const StageIndex before{placed.stage.value - 1};
    if (placed.stage.value == 0) {
      assignment.upstreams[placed.stage] = coordinator;
    } else if (!is_own(before)) {
      const StagePlace& place = places[before.value];
      assignment.upstreams[placed.stage] = {place.node, false, place.address, place.placement};
    }
    const StageIndex behind = placed.stage.next();
    if (behind.value < places.size() && !is_own(behind)) {
      const StagePlace& place = places[behind.value];
      assignment.downstreams[behind] = {place.node, false, "", place.placement};
    }
  }
  return assignment;
}

}  // namespace zerolock
