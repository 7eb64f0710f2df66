#include "supervision/simulation/faults.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "supervision/simulation/coordinator.hpp"

namespace zerolock::simulation {
namespace {

constexpr std::array<FaultPoint, 10> points{FaultPoint::entry_received,  FaultPoint::forward_begin,
                                            FaultPoint::forward_end,     FaultPoint::entry_sent,
                                            FaultPoint::backward,        FaultPoint::step,
                                            FaultPoint::checkpoint_temp, FaultPoint::checkpoint_rename,
                                            FaultPoint::manifest,        FaultPoint::durable_ack};

constexpr Time away_first = std::chrono::milliseconds(1);
constexpr Time away_longest = std::chrono::milliseconds(600);

}  // namespace

void FaultPlan::draw() {
  Random& random = cluster_.random;
  const Scenario& scenario = cluster_.scenario;
  // About as long as the run takes: stages work side by side.
  const Time horizon = scenario.forward * 4 * (scenario.last_window.value * 3 + scenario.stages) +
                       scenario.latency * 4 * (scenario.stages + scenario.last_window.value);
  for (std::uint64_t i = 0; i < scenario.faults; ++i) {
    if (random.one_in(3)) {
      traps_.push_back({any_stage(), points[random.below(points.size())],
                        WindowIndex{random.between(1, scenario.last_window.value)}, random.one_in(2)});
    } else {
      draw_one(random.between(Time{0}, horizon));
    }
  }
}

void FaultPlan::draw_one(Time time) {
  const std::uint64_t kind = cluster_.random.below(18);
  schedule(time, [this, kind] {
    switch (kind) {
      case 0:
      case 1:
        return fail_child(ChildKind::worker);
      case 2:
        return fail_child(cluster_.random.one_in(2) ? ChildKind::inbound : ChildKind::outbound);
      case 3:
        return fail_child(ChildKind::keeper);
      case 4:
      case 5:
        return kill(any_machine());
      case 6:
        return kill_adjacent();
      case 7:
        return kill_everything();
      case 8:
        return kill_during_replay();
      case 9:
        return kill_coordinator();
      case 10:
        return pause_executor();
      case 11:
        return pause_coordinator();
      case 12:
      case 13:
        return cut_connection();
      case 14:
        return partition();
      case 15:
        return damage_frame();
      case 16:
        return cluster_.random.one_in(2) ? flip_bit() : fill_disk();
      default:
        return slow_down();
    }
  });
}

void FaultPlan::schedule(Time time, std::function<void()> act) {
  quiet_from_ = std::max(quiet_from_, time);
  cluster_.timeline.at(time, cluster_.outside, cluster_.life, [this, act = std::move(act)] {
    ++happened_;
    act();
  });
}

void FaultPlan::lasts(Time duration) {
  quiet_from_ = std::max(quiet_from_, cluster_.timeline.now() + duration);
}

void FaultPlan::later(Time delay, std::function<void()> act) {
  lasts(delay);
  cluster_.timeline.after(delay, cluster_.outside, cluster_.life, std::move(act));
}

void FaultPlan::reached(Stage& stage, FaultPoint point, const BatchPosition& position, ChildKind child) {
  for (std::size_t i = 0; i < traps_.size(); ++i) {
    const Trap trap = traps_[i];
    if (trap.stage != stage.index() || trap.point != point || trap.window > position.window) continue;
    traps_.erase(traps_.begin() + static_cast<std::ptrdiff_t>(i));
    ++happened_;
    cluster_.log.note("fault at " + std::string(to_string(point)) + " of " + to_string(position));
    if (trap.kills) {
      kill(stage.machine().number);
    } else {
      lasts(Time{0});
      cluster_.checker.disturbed(stage.index(), "an exception");
      stage.fail(child, "an injected fault");
    }
    return;
  }
}

// -- processes

StageIndex FaultPlan::any_stage() {
  return StageIndex{cluster_.random.below(cluster_.scenario.stages)};
}

std::size_t FaultPlan::any_machine() {
  return cluster_.random.below(cluster_.machines.size());
}

Stage* FaultPlan::find(StageIndex index) {
  Stage* found = nullptr;
  for (const auto& machine : cluster_.machines) {
    Stage* stage = machine->executor ? machine->executor->stage(index) : nullptr;
    if (stage != nullptr && (found == nullptr || stage->placement() > found->placement())) found = stage;
  }
  return found;
}

void FaultPlan::fail_child(ChildKind kind) {
  Stage* stage = find(any_stage());
  if (stage == nullptr) return;
  cluster_.checker.disturbed(stage->index(), "its " + std::string(to_string(kind)) + " is made to fail");
  stage->fail(kind, "an injected fault");
}

bool FaultPlan::can_lose_a_machine() const {
  std::size_t groups = 0;
  std::size_t left = 0;
  for (std::size_t i = 0; i < cluster_.machines.size(); ++i) {
    if (!cluster_.scenario.first_placement[i].empty()) ++groups;
    if (!cluster_.machines[i]->lost_for_good) ++left;
  }
  return left > groups && cluster_.coordinator && cluster_.coordinator->running();
}

void FaultPlan::kill(std::size_t number) {
  Machine& machine = *cluster_.machines.at(number);
  if (!machine.executor) return;
  const bool for_good = can_lose_a_machine() && cluster_.random.one_in(4);
  cluster_.log.note("kill " + machine.name() + (for_good ? ", whose machine is gone for good" : ""));
  cluster_.checker.disturbed_executor(number);
  // Its stages are disturbed when they are placed anew, and not before.
  cluster_.kill_executor(number, cluster_.random.one_in(2));
  lasts(Time{0});
  if (for_good) {
    machine.lost_for_good = true;
    machine.disk.erase();
    return;
  }
  later(cluster_.random.between(away_first, away_longest),
        [this, number] { cluster_.start_executor(number); });
}

void FaultPlan::kill_adjacent() {
  const std::uint64_t count = cluster_.random.between(2, 4);
  const std::uint64_t first = any_stage().value;
  for (std::uint64_t k = first; k < std::min(first + count, cluster_.scenario.stages); ++k) {
    if (Stage* stage = find(StageIndex{k})) kill(stage->machine().number);
  }
}

void FaultPlan::kill_everything() {
  for (std::size_t i = 0; i < cluster_.machines.size(); ++i) kill(i);
  if (cluster_.random.one_in(2)) kill_coordinator();
}

void FaultPlan::kill_during_replay() {
  const StageIndex index = any_stage();
  if (Stage* stage = find(index)) kill(stage->machine().number);
  for (int again = 0; again < 2; ++again) {
    later(cluster_.random.between(away_first, 2 * away_longest), [this, index] {
      Stage* stage = find(index);
      if (stage == nullptr || !stage->replaying()) return;
      if (cluster_.random.one_in(2)) {
        kill(stage->machine().number);
      } else {
        cluster_.checker.disturbed(index, "its worker is made to fail again");
        stage->fail(ChildKind::worker, "an injected fault");
      }
    });
  }
}

void FaultPlan::disturb_all_executors() {
  for (std::size_t i = 0; i < cluster_.machines.size(); ++i) cluster_.checker.disturbed_executor(i);
}

void FaultPlan::kill_coordinator() {
  if (!cluster_.coordinator) return;
  cluster_.log.note("kill the coordinator");
  disturb_all_executors();
  cluster_.kill_coordinator();
  later(cluster_.random.between(away_first, away_longest), [this] { cluster_.start_coordinator(); });
}

void FaultPlan::pause_executor() {
  Machine& machine = *cluster_.machines.at(any_machine());
  if (!machine.executor || machine.host.paused) return;
  const Time duration = cluster_.random.between(away_first, 2 * cluster_.scenario.placement.absence_max);
  cluster_.log.note("stop " + machine.name() + " for " + std::to_string(duration.count() / 1000) + " us");
  cluster_.checker.disturbed_executor(machine.number);
  cluster_.pause(machine.host);
  later(duration, [this, &machine] {
    cluster_.log.note("continue " + machine.name());
    cluster_.timeline.resume(machine.host);
  });
}

void FaultPlan::pause_coordinator() {
  if (!cluster_.coordinator || cluster_.coordinator_host.paused) return;
  const Time duration = cluster_.random.between(away_first, cluster_.scenario.placement.absence_max);
  cluster_.log.note("stop the coordinator for " + std::to_string(duration.count() / 1000) + " us");
  disturb_all_executors();
  cluster_.pause(cluster_.coordinator_host);
  later(duration, [this] {
    cluster_.log.note("continue the coordinator");
    cluster_.timeline.resume(cluster_.coordinator_host);
  });
}

// -- connections

/// Losing the coordinator for long may cost an executor its stages.
void FaultPlan::disturb_end_of(const Connection& connection) {
  for (const auto& machine : cluster_.machines) {
    if (connection.name() == machine->control_name()) cluster_.checker.disturbed_executor(machine->number);
  }
}

void FaultPlan::cut_connection() {
  const std::vector<ConnectionPointer> open = cluster_.network.connections();
  if (open.empty()) return;
  const ConnectionPointer& connection = open[cluster_.random.below(open.size())];
  cluster_.log.note("cut the " + connection->name());
  disturb_end_of(*connection);
  cluster_.network.cut(connection);
  lasts(cluster_.scenario.silence_limit);
}

void FaultPlan::partition() {
  Machine& machine = *cluster_.machines.at(any_machine());
  if (!machine.executor || machine.partitioned) return;
  const Time duration = cluster_.random.between(away_first, 2 * cluster_.scenario.placement.absence_max);
  cluster_.log.note("cut " + machine.name() + " off for " + std::to_string(duration.count() / 1000) + " us");
  cluster_.checker.disturbed_executor(machine.number);
  machine.partitioned = true;
  cluster_.network.cut_off(machine.host);
  later(duration, [&machine] { machine.partitioned = false; });
}

void FaultPlan::damage_frame() {
  const std::vector<ConnectionPointer> open = cluster_.network.connections();
  if (open.empty()) return;
  const ConnectionPointer& connection = open[cluster_.random.below(open.size())];
  disturb_end_of(*connection);
  connection->damage_next(cluster_.random.below(2));
  // It may hit much later, and then costs what a cut does.
  lasts(cluster_.scenario.silence_limit);
}

// -- disks and speed

/// One in a run: what recovery keeps is one good checkpoint besides the newest.
void FaultPlan::flip_bit() {
  if (flipped_) return;
  Stage* stage = find(any_stage());
  if (stage == nullptr) return;
  const bool copy = cluster_.random.one_in(3);
  CheckpointDisk& disk = copy ? cluster_.copies : stage->machine().disk;
  const std::vector<WindowIndex> windows = disk.windows(stage->index());
  if (windows.size() < 2 || !disk.flip(stage->index(), windows.back())) return;
  flipped_ = true;
  cluster_.log.note("a bit flips in " + std::string(copy ? "the copy of the " : "the ") + "checkpoint of " +
                    name_of(stage->index()) + ", window " + std::to_string(windows.back().value));
  // Or nobody would look at it.
  cluster_.checker.disturbed(stage->index(), "its worker is made to fail");
  if (copy) {
    kill(stage->machine().number);
  } else {
    stage->fail(ChildKind::worker, "an injected fault");
  }
}

void FaultPlan::fill_disk() {
  Machine& machine = *cluster_.machines.at(any_machine());
  cluster_.log.note("the disk of " + machine.name() + " is full");
  machine.disk.full = true;
  later(cluster_.random.between(away_first, std::chrono::milliseconds(40)), [this, &machine] {
    cluster_.log.note("the disk of " + machine.name() + " has room again");
    machine.disk.full = false;
  });
}

void FaultPlan::slow_down() {
  Machine& machine = *cluster_.machines.at(any_machine());
  machine.slowness = cluster_.random.between(2, 50);
  cluster_.log.note(machine.name() + " is " + std::to_string(machine.slowness) + " times slower");
  later(cluster_.random.between(away_first, away_longest), [&machine] { machine.slowness = 1; });
}

}  // namespace zerolock::simulation
