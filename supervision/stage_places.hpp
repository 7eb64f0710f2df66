#pragma once
/// Who has each stage of a run, and what that means for an executor's assignment.

#include <string>
#include <utility>
#include <vector>

#include "actors/core/placement_core.hpp"
#include "supervision/assignment.hpp"

namespace zerolock {

/// The stages of each executor, by node; one without stages stands by.
using PlannedPlaces = std::vector<std::pair<std::string, std::vector<StageIndex>>>;

/// Contiguous stages for each executor, as evenly as it goes, the rest one each to the first ones; with more
/// executors than stages the last ones get none. Returns the stages of each.
std::vector<std::vector<StageIndex>> spread_stages(std::uint64_t stages, std::uint64_t executors);

/// Stages spread over executors in the order of their names; or as `hosts_before` has them, the node of each
/// stage, if it names nobody else.
PlannedPlaces places_on(const std::vector<std::string>& executors, std::uint64_t stages,
                        const std::vector<std::string>& hosts_before);

struct StagePlace {
  std::string node;     // empty: nobody has it, or its executor has not come back yet
  std::string address;  // where its executor lets downstreams in
  Placement placement;

  bool operator==(const StagePlace&) const = default;
};

/// What an executor with the stages `own` (ascending) is to run: `common` with these stages and with who is
/// on the other side of each boundary that leads out of them. `places` is of all stages.
Assignment assignment_for(const Assignment& common, const Neighbour& coordinator,
                          const std::vector<PlacedStage>& own, const std::vector<StagePlace>& places);

}  // namespace zerolock
