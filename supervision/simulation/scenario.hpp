#pragma once
/// What one seed stands for: the size of the cluster, its times and bounds.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "actors/core/placement_core.hpp"
#include "actors/core/scheduler_core.hpp"
#include "actors/core/window_order.hpp"
#include "supervision/restart_policy.hpp"
#include "supervision/simulation/timeline.hpp"

namespace zerolock::simulation {

/// Deliberate bugs, by which tests show that the checks find something.
enum class Mutation : std::uint8_t {
  none,
  release_before_durable,    // inbound entries go with the step, not with its checkpoint
  no_session_fencing,        // an upstream admits placements and sessions that were replaced
  no_placement_fencing,      // the coordinator listens to placements that were replaced
  double_step,               // the first step of a replay is applied twice
  line_too_far,              // the line follows what is committed
  released_by_downstream,    // outbound entries go when the next stage's checkpoint covers them
  torn_checkpoint_trusted,   // checkpoints are read without their checksums
  half_window_kept,          // a restored worker keeps the gradient of the window that was open
  gap_accepted,              // an entry is taken for the next one, whichever it is
  credit_beyond_bound,       // an inbound buffer promises more than its bounds
  backward_before_send,      // the hidden state leaves after the backward
  announced_before_journal,  // windows are granted before the journal has it
  damaged_frame_accepted,    // frames are read without their checksums
  durable_before_copy,       // a window counts as durable before the coordinator holds its checkpoint
};
std::string_view to_string(Mutation mutation);

struct Scenario {
  std::uint64_t seed = 0;
  std::uint64_t stages = 1;
  std::vector<std::vector<StageIndex>> first_placement;  // by executor; spares have none
  WindowIndex last_window;
  std::uint64_t checkpoint_every = 1;
  std::uint64_t lead_windows = 1;
  std::uint64_t ahead_windows = 1;
  std::uint64_t depth = 1;
  std::uint64_t buffer_bytes_max = 0;
  std::uint64_t replay_batch = 1;
  RestartIntensity intensity;
  PlacementSetup placement;
  bool processes_watched = false;  // the coordinator hears at once when a process is gone
  std::uint64_t faults = 0;
  std::optional<Time> stop_at;  // an orderly stop is asked for

  // Times, at a speed of 1. Each may last up to twice as long.
  Time message{0};     // between two actors of a process
  Time latency{0};     // of a connection
  Time forward{0};     // of a micro-batch; its backward takes twice as long
  Time disk_write{0};  // each of the three parts of a checkpoint
  Time journal{0};     // one record
  Time silence_limit{0};
  Time redial_first{0};
  Time redial_longest{0};

  [[nodiscard]] std::uint64_t micro_batches(WindowIndex window) const;
  [[nodiscard]] MicroBatchCount micro_batch_count() const;
  [[nodiscard]] std::uint64_t rows(const BatchPosition& position) const;
  [[nodiscard]] SchedulerSetup scheduler() const;
  [[nodiscard]] std::uint64_t executors() const { return first_placement.size(); }
};

/// `stages`: as many, instead of what the seed says.
Scenario make_scenario(std::uint64_t seed, std::optional<std::uint64_t> stages);

}  // namespace zerolock::simulation
