#pragma once
/// What goes wrong in a simulated run, and when: drawn from its seed.

#include <cstdint>
#include <functional>
#include <vector>

#include "supervision/simulation/executor.hpp"

namespace zerolock::simulation {

class FaultPlan {
 public:
  explicit FaultPlan(Cluster& cluster) : cluster_(cluster) {}

  /// Draws all that is to happen.
  void draw();
  /// The stage is at one of the named points; a fault may have been waiting for it there.
  void reached(Stage& stage, FaultPoint point, const BatchPosition& position, ChildKind child);
  /// From here on nothing is out of order any more, as far as is known now.
  [[nodiscard]] Time quiet_from() const { return quiet_from_; }
  /// Those that have happened.
  [[nodiscard]] std::uint64_t happened() const { return happened_; }

 private:
  struct Trap {
    StageIndex stage;
    FaultPoint point = FaultPoint::step;
    WindowIndex window;
    bool kills = false;  // the process, not only the child
  };

  void draw_one(Time time);
  void schedule(Time time, std::function<void()> act);
  /// Lasts so long.
  void lasts(Time duration);
  void later(Time delay, std::function<void()> act);

  void fail_child(ChildKind kind);
  void kill(std::size_t machine);
  void kill_adjacent();
  void kill_everything();
  void kill_during_replay();
  void kill_coordinator();
  void pause_executor();
  void pause_coordinator();
  void cut_connection();
  void partition();
  void damage_frame();
  void flip_bit();
  void fill_disk();
  void slow_down();

  [[nodiscard]] StageIndex any_stage();
  [[nodiscard]] std::size_t any_machine();
  /// The stage where it is run, by its highest placement; null while it is nowhere.
  [[nodiscard]] Stage* find(StageIndex index);
  void disturb_all_executors();
  void disturb_end_of(const Connection& connection);
  [[nodiscard]] bool can_lose_a_machine() const;

  Cluster& cluster_;
  std::vector<Trap> traps_;
  Time quiet_from_{0};
  std::uint64_t happened_ = 0;
  bool flipped_ = false;
};

}  // namespace zerolock::simulation
