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
