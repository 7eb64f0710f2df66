#pragma once
/// How long anybody waits for anybody. They nest: what answers within one deadline must not itself wait
/// longer.

#include <chrono>

namespace zerolock {

struct Deadlines {
  std::chrono::milliseconds journal{10'000};   // one record kept
  std::chrono::milliseconds restore{120'000};  // a state read and verified
  std::chrono::milliseconds connect{60'000};   // the downstream of a new outbound buffer says what it lacks
  std::chrono::milliseconds buffer_summary{5'000};
  std::chrono::milliseconds stage_summary{10'000};
  std::chrono::milliseconds remote_summary{15'000};
  std::chrono::milliseconds executor_summary{20'000};
  std::chrono::milliseconds join{5'000};      // membership, or the executors' owner, answers
  std::chrono::milliseconds welcome{15'000};  // the coordinator answers an executor's first words
  std::chrono::milliseconds probe{2'000};     // a machine says whether an executor's process is there
  std::chrono::milliseconds beat_interval{1'000};
  std::chrono::milliseconds queues_interval{1'000};  // between two looks at what stands in a stage's buffers
  std::chrono::milliseconds lease{10'000};     // an executor that was not heard of for so long is silent
  std::chrono::milliseconds redial_first{50};  // before a link tries again to connect; doubles
  std::chrono::milliseconds redial_longest{2'000};
  std::chrono::milliseconds boundary_absence{600'000};  // a neighbour that stays away so long will not come
  std::chrono::milliseconds coordinator_absence{600'000};  // the same of the coordinator
  std::chrono::milliseconds executor_absence{15'000};  // an executor's stages are given to another after that
  std::chrono::milliseconds stage_vacancy{60'000};     // stages without an executor wait so long for one
  std::chrono::milliseconds executor_farewell{10'000};  // an executor stops its stages at the end of a run
  std::chrono::milliseconds last_copy{60'000};          // the disk takes a lost executor's last copy
  std::chrono::milliseconds stop_poll{50};              // how often the caller's stop request is looked at
};

inline constexpr Deadlines deadlines{};
static_assert(deadlines.buffer_summary < deadlines.stage_summary);
static_assert(deadlines.stage_summary < deadlines.remote_summary);
static_assert(deadlines.remote_summary < deadlines.executor_summary);
static_assert(2 * deadlines.beat_interval < deadlines.lease);
static_assert(2 * deadlines.join < deadlines.welcome);
static_assert(deadlines.redial_longest < deadlines.lease && deadlines.lease < deadlines.executor_absence);
static_assert(deadlines.executor_absence < deadlines.stage_vacancy);
static_assert(deadlines.stage_vacancy < deadlines.boundary_absence);

}  // namespace zerolock
