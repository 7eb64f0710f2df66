#pragma once
/// A simulated stage: its supervisor, and the children that it starts, stops and restarts.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/core/placement_core.hpp"
#include "actors/core/stage_recovery_core.hpp"
#include "supervision/restart_policy.hpp"
#include "supervision/simulation/control_word.hpp"
#include "supervision/simulation/stage_buffers.hpp"
#include "supervision/simulation/stage_worker.hpp"

namespace zerolock::simulation {

/// From left to right: each depends on those before it.
enum class ChildKind : std::uint8_t { inbound, outbound, keeper, worker };
std::string_view to_string(ChildKind kind);

/// The ways out of a stage, which its executor provides.
class StagePorts {
 public:
  virtual ~StagePorts() = default;
  // To the stage before.
  virtual void hello(StageIndex stage, std::uint64_t session, const BatchPosition& first_lacking) = 0;
  virtual void credit(StageIndex stage, std::uint64_t session, const EntryCredit& credit) = 0;
  // To the stage after.
  virtual void entry(StageIndex stage, std::uint64_t session, const Entry& entry) = 0;
  virtual void blocked(StageIndex stage, std::uint64_t session, const BatchPosition& position,
                       std::uint64_t bytes) = 0;
  // To the coordinator.
  virtual void report(const ControlWord& word) = 0;
  // To the executor.
  virtual void buffers_made(StageIndex stage) = 0;
  virtual void outbound_gone(StageIndex stage) = 0;
  virtual void stage_failed(StageIndex stage, const std::string& cause) = 0;
};

class Stage {
 public:
  Stage(Cluster& cluster, Machine& machine, StagePorts& ports, const PlacedStage& placed, WindowIndex line,
        std::optional<WindowIndex> end_at);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void start();
  /// It ends with its process.
  void end();
  void line(WindowIndex line);
  void end_at(WindowIndex window);
  /// The child ends, for this reason; its supervisor hears of it.
  void fail(ChildKind kind, const std::string& cause);

  // From its neighbours; what is gone hears nothing.
  void connect_upstream(std::uint64_t session);
  void on_entry(std::uint64_t session, const Entry& entry);
  void on_blocked(const BatchPosition& position, std::uint64_t bytes);
  void on_hello(std::uint64_t session, const BatchPosition& first_lacking);
  void on_credit(std::uint64_t session, const EntryCredit& credit);

  // Between its children.
  void give(Incarnation life, const Entry& entry);
  void allow(const OutputAllowance& allowance);
  void ask_for_entry(Incarnation life);
  void ask_what_waits(Incarnation life);
  void gathered(Incarnation life);
  void put(const Entry& entry);
  void save(WindowIndex window, std::uint64_t value);
  void report_committed(Incarnation incarnation, WindowIndex window);

  // Answers to the supervisor.
  void lacked(std::uint64_t attempt, const BatchPosition& first_lacking);
  void restored(std::uint64_t attempt, const std::optional<CheckpointDisk::Found>& found);
  void saved(WindowIndex window, std::uint64_t value);

  [[nodiscard]] StageIndex index() const { return placed_.stage; }
  [[nodiscard]] Placement placement() const { return placed_.placement; }
  [[nodiscard]] StagePorts& ports() { return ports_; }
  [[nodiscard]] Machine& machine() { return machine_; }
  [[nodiscard]] bool has_outbound() const { return outbound_ && outbound_->alive(); }
  /// By its latest life.
  [[nodiscard]] const WindowsDone& committed() const { return committed_; }
  [[nodiscard]] const WindowsDone& durable() const { return durable_; }
  [[nodiscard]] Incarnation incarnation() const { return recovery_.incarnation(); }
  [[nodiscard]] bool replaying() const { return worker_ && recovery_.incarnation() > first_life_; }

 private:
  [[nodiscard]] bool last_stage() const { return placed_.stage.value + 1 == cluster_.scenario.stages; }
  [[nodiscard]] CheckpointSchedule checkpoints() const;
  /// To the supervisor itself.
  void tell_self(std::function<void()> word);
  void start_from(ChildKind first);
  void start_buffers();
  void carry_out(const RecoveryOrder& order);
  void start_worker(WindowIndex committed, std::uint64_t state, bool save_first);
  void note_durable(WindowIndex window, std::uint64_t value);
  void failed(ChildKind kind, const std::string& cause);
  void restart_from(ChildKind target, Time delay);
  void end_children_from(ChildKind first);
  void bury(ChildKind kind);

  Cluster& cluster_;
  Machine& machine_;
  StagePorts& ports_;
  PlacedStage placed_;
  StageRecoveryCore recovery_;
  Incarnation first_life_;
  RestartPolicy policy_;
  std::optional<WindowIndex> end_at_;
  WindowsDone committed_;
  WindowsDone durable_;
  Life life_ = new_life();
  Lane mailbox_;
  std::unique_ptr<InboundActor> inbound_;
  std::unique_ptr<OutboundActor> outbound_;  // none for the last stage
  std::unique_ptr<KeeperActor> keeper_;
  std::unique_ptr<WorkerActor> worker_;
  std::optional<ChildKind> restart_target_;  // children from there on are being replaced
  Time restart_at_{0};
  std::uint64_t restarts_ = 0;
  std::uint64_t kept_gradient_ = 0;  // by a mutation
};

}  // namespace zerolock::simulation
