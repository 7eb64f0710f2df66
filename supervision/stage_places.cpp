#include "supervision/stage_places.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

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
