#pragma once
/// Holds a simulated run against the invariants of docs/architecture.md, as it goes and at its end.

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/core/hidden_state_buffer_core.hpp"
#include "actors/core/outbound_buffer_core.hpp"
#include "actors/core/placement_core.hpp"
#include "supervision/simulation/disk.hpp"
#include "supervision/simulation/event_log.hpp"
#include "supervision/simulation/numbers.hpp"
#include "supervision/simulation/scenario.hpp"

namespace zerolock::simulation {

/// Something happened that must not. The text begins with the invariant.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Checker {
 public:
  Checker(const Scenario& scenario, const ExpectedNumbers& expected, EventLog& log);

  // -- what disturbs
  /// This happens to the stage, or to its process: it may begin one more life.
  void disturbed(StageIndex stage, const std::string& how);
  /// This happens to the executor, or to its way to the coordinator: it may lose its stages.
  void disturbed_executor(std::size_t executor) { ++executor_disturbances_.at(executor); }
  /// A window that counted as durable was passed over as damaged: all stages before may have to go back too.
  void damaged(StageIndex stage, WindowIndex window);

  // -- what stages do
  void placed_again(StageIndex stage, std::size_t from_executor);
  void life_begins(StageIndex stage, Incarnation incarnation, WindowIndex committed, std::uint64_t state);
  void received(StageIndex stage, std::uint64_t session, std::uint64_t current_session, const Entry& entry);
  void forwarded(StageIndex stage, const BatchPosition& position, std::uint64_t value);
  void backward_begins(StageIndex stage, const BatchPosition& position, bool sent_on) const;
  void stepped(StageIndex stage, WindowIndex window, std::uint64_t state);

  // -- what is kept and promised
  void in_flight(StageIndex boundary, std::uint64_t entries, std::uint64_t bytes) const;
  void inbound_kept(StageIndex stage, const HiddenStateBufferCore& buffer, const CheckpointDisk& disk) const;
  /// `born`: the first entry that the buffer was ever to hold.
  void outbound_kept(StageIndex stage, const OutboundBufferCore& buffer, const BatchPosition& born) const;
  /// An upstream no longer has what its downstream lacks.
  void outbound_lacks(StageIndex stage, const BatchPosition& lacking, const BatchPosition& born);
  void session_opened(StageIndex boundary, std::uint64_t session, std::uint64_t highest) const;
  void copied(StageIndex stage, WindowIndex window);
  void line_announced(WindowIndex line, const CheckpointDisk& copies) const;
  void granted(WindowIndex window, WindowIndex line) const;
  void heard_of(StageIndex stage, Placement placement, Placement current) const;

  /// The run has ended after this window.
  void finished(WindowIndex last, const CheckpointDisk& copies) const;

  [[nodiscard]] std::uint64_t lives() const;
  [[nodiscard]] std::uint64_t second_rollbacks() const { return second_rollbacks_; }
  [[nodiscard]] WindowIndex true_line() const;

 private:
  [[noreturn]] void fail(const std::string& invariant, const std::string& what) const;
  [[nodiscard]] std::uint64_t place(const BatchPosition& position) const;

  struct Stage {
    std::uint64_t lives = 0;
    std::uint64_t disturbances = 0;
    std::uint64_t steps = 0;
    WindowIndex committed;
    Incarnation incarnation;
    WindowIndex copied;
  };

  const Scenario& scenario_;
  const ExpectedNumbers& expected_;
  EventLog& log_;
  std::vector<Stage> stages_;
  std::vector<std::uint64_t> executor_disturbances_;
  std::uint64_t second_rollbacks_ = 0;
  bool damage_ = false;
};

std::string name_of(StageIndex stage);

}  // namespace zerolock::simulation
