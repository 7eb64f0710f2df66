#include "supervision/simulation/scenario.hpp"

#include <algorithm>

namespace zerolock::simulation {
namespace {

constexpr std::uint64_t micro_batches_max = 4;
constexpr std::uint64_t rows_max = 3;
constexpr std::uint64_t row_bytes = 8;

std::uint64_t draw_stages(Random& random) {
  if (random.one_in(60)) return 64;
  if (random.one_in(12)) return random.between(9, 20);
  return random.between(1, 8);
}

/// Neighbouring stages together, some executors without any.
std::vector<std::vector<StageIndex>> draw_placement(Random& random, std::uint64_t stages) {
  std::vector<std::vector<StageIndex>> executors;
  const std::uint64_t most = 1 + random.below(3);
  for (std::uint64_t k = 0; k < stages;) {
    std::vector<StageIndex> own;
    for (std::uint64_t count = random.between(1, most); count > 0 && k < stages; --count) {
      own.push_back(StageIndex{k++});
    }
    executors.push_back(std::move(own));
  }
  executors.resize(executors.size() + random.below(3));
  return executors;
}

}  // namespace

std::string_view to_string(Mutation mutation) {
  switch (mutation) {
    case Mutation::none:
      return "none";
    case Mutation::release_before_durable:
      return "release before durable";
    case Mutation::no_session_fencing:
      return "no fencing of sessions";
    case Mutation::no_placement_fencing:
      return "no fencing of placements";
    case Mutation::double_step:
      return "double step after a replay";
    case Mutation::line_too_far:
      return "recovery line too far";
    case Mutation::released_by_downstream:
      return "outbound entries released by the downstream's checkpoint";
    case Mutation::torn_checkpoint_trusted:
      return "torn checkpoint trusted";
    case Mutation::half_window_kept:
      return "half a window kept";
    case Mutation::gap_accepted:
      return "gap accepted";
    case Mutation::credit_beyond_bound:
      return "credit beyond the bound";
    case Mutation::backward_before_send:
      return "backward before send";
    case Mutation::announced_before_journal:
      return "announced before the journal has it";
    case Mutation::damaged_frame_accepted:
      return "damaged frame accepted";
    case Mutation::durable_before_copy:
      return "durable before the coordinator has the copy";
  }
  return "unknown";
}

std::uint64_t Scenario::micro_batches(WindowIndex window) const {
  return 1 + Random{seed * 31 + window.value}.below(micro_batches_max);
}

MicroBatchCount Scenario::micro_batch_count() const {
  return [seed = seed](WindowIndex window) {
    Scenario shape;
    shape.seed = seed;
    return shape.micro_batches(window);
  };
}

std::uint64_t Scenario::rows(const BatchPosition& position) const {
  return 1 + Random{seed * 17 + position.window.value * 5 + position.micro_batch}.below(rows_max);
}

SchedulerSetup Scenario::scheduler() const {
  return {stages, WindowIndex{1}, last_window, lead_windows, ahead_windows, false};
}

Scenario make_scenario(std::uint64_t seed, std::optional<std::uint64_t> stages) {
  Random random(seed * 0x9e3779b97f4a7c15ULL + 1);
  Scenario scenario;
  scenario.seed = seed;
  const std::uint64_t drawn = draw_stages(random);
  scenario.stages = stages.value_or(drawn);
  scenario.first_placement = draw_placement(random, scenario.stages);
  scenario.last_window = WindowIndex{random.between(4, 12)};
  scenario.checkpoint_every = random.between(1, 3);
  scenario.lead_windows = scenario.checkpoint_every + random.below(4);
  scenario.ahead_windows = random.between(1, 4);
  scenario.depth = random.between(1, 4);
  const std::uint64_t window_bytes = micro_batches_max * rows_max * row_bytes;
  scenario.buffer_bytes_max = window_bytes * (scenario.checkpoint_every + random.below(3));
  scenario.intensity = {5, std::chrono::milliseconds(200), microseconds(200), std::chrono::milliseconds(5)};
  scenario.processes_watched = random.one_in(2);
  scenario.faults = random.one_in(10) ? 0 : random.between(1, 12);
  scenario.message = microseconds(random.between(1, 50));
  scenario.latency = microseconds(random.between(20, 3000));
  scenario.forward = microseconds(random.between(100, 2000));
  scenario.disk_write = microseconds(random.between(50, 3000));
  scenario.journal = microseconds(random.between(20, 2000));
  scenario.silence_limit = std::chrono::milliseconds(30);
  scenario.redial_first = std::chrono::milliseconds(1);
  scenario.redial_longest = std::chrono::milliseconds(20);
  scenario.placement.stages = scenario.stages;
  scenario.placement.absence_max = std::chrono::milliseconds(random.between(100, 400));
  // Faults follow one another much faster here than anywhere else, and none of them is meant to end the run.
  scenario.placement.vacancy_max = std::chrono::hours(1);
  scenario.placement.losses_max = 1000;
  scenario.replay_batch = random.one_in(2) ? 1 : random.between(2, micro_batches_max);
  if (random.one_in(6)) scenario.stop_at = random.between(Time{0}, std::chrono::milliseconds(150));
  return scenario;
}

}  // namespace zerolock::simulation
