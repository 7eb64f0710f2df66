#pragma once
/// The worker and the keeper of a simulated stage.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "actors/core/stage_progress_core.hpp"
#include "supervision/simulation/stage_buffers.hpp"

namespace zerolock::simulation {

class WorkerActor : public Child {
 public:
  WorkerActor(Cluster& cluster, Machine& machine, Stage& stage, StageProgressSetup setup,
              Incarnation incarnation, const StageNumbers& numbers);

  // Words wait while it computes.
  void start();
  void entry(const Entry& entry);
  void allowance(const OutputAllowance& allowance);
  void durable(WindowIndex window);
  void end_at(WindowIndex window);
  /// Whatever waited in the buffer when it was asked has come.
  void gathered();

  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }
  [[nodiscard]] const StageNumbers& numbers() const { return numbers_; }
  /// Until then it cannot be replaced.
  [[nodiscard]] Time busy_until() const { return busy_until_; }

 private:
  void receive(std::function<void()> word);
  void work();
  [[nodiscard]] bool carry_out(const StageAction& action);
  void compute(const StageAction& action, Time duration);
  void computed(const StageAction& action);
  void gather();
  void forward(const StageAction& action);
  void forward_one(const StageAction& action);
  void backward(const StageAction& action);
  void send_on(const Entry& entry);
  void step(WindowIndex window);
  [[nodiscard]] bool fault_at(FaultPoint point, const BatchPosition& position);

  Stage& stage_;
  StageProgressCore progress_;
  Incarnation incarnation_;
  StageNumbers numbers_;
  std::deque<Entry> inputs_;           // received, and not forwarded yet
  std::deque<std::uint64_t> trained_;  // inputs that wait for their backward
  bool heard_entry_ = false;           // in this life
  bool gathering_ = false;             // the buffer has been asked what waits
  std::optional<Entry> late_;          // its hidden state, not sent on yet: by a mutation
  bool stepped_ = false;               // in this life
  bool busy_ = false;
  Time busy_until_{0};
  std::deque<std::function<void()>> waiting_;
};

/// Does one thing after the other.
class KeeperActor : public Child {
 public:
  KeeperActor(Cluster& cluster, Machine& machine, Stage& stage) : Child(cluster, machine), stage_(stage) {}

  void save(WindowIndex window, std::uint64_t value);
  void restore(std::uint64_t attempt, WindowIndex at_most);
  void retire(WindowIndex line);

 private:
  void enqueue(std::function<void()> job);
  void next();
  /// After a third of what writing takes; ends the keeper if the disk is full.
  void then(std::function<void()> part);
  void write(WindowIndex window, std::uint64_t value);
  [[nodiscard]] bool fault_at(FaultPoint point, WindowIndex window);

  Stage& stage_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false;
};

}  // namespace zerolock::simulation
