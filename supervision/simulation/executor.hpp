#pragma once
/// A simulated executor process: its stages, the boundaries between them and to others, and its conversation
/// with the coordinator.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/core/message_stream_core.hpp"
#include "actors/core/reconnect_policy.hpp"
#include "supervision/simulation/control_word.hpp"
#include "supervision/simulation/stage.hpp"

namespace zerolock::simulation {

/// Another process wants to be the downstream of a boundary.
struct BoundaryDial {
  StageIndex boundary;
  Placement placement;  // of the stage that dials
  std::size_t machine = 0;
  WeakLife process;
  std::uint64_t number = 0;
};

class Executor final : public StagePorts {
 public:
  Executor(Cluster& cluster, Machine& machine, std::uint64_t process);

  void start() { dial_coordinator(); }
  /// Nothing more happens in it.
  void end();

  // From the coordinator.
  void welcomed(std::uint64_t number, const ConnectionPointer& connection, std::uint64_t conversation,
                std::uint64_t lacking);
  void on_control(const ConnectionPointer& connection, std::uint64_t number, const std::string& body);
  void on_acknowledged(std::uint64_t lacking) { (void)stream_.acknowledged(lacking); }
  /// Others have its stages now.
  void dismissed();

  // From other executors, and from the coordinator as upstream of boundary 0.
  void admit(const BoundaryDial& dial);
  void dialled(StageIndex boundary, std::uint64_t number, const ConnectionPointer& connection);
  void dial_refused(StageIndex boundary, std::uint64_t number);
  void remote_hello(StageIndex boundary, const ConnectionPointer& connection, std::uint64_t session,
                    const BatchPosition& first_lacking);
  void remote_credit(StageIndex boundary, const ConnectionPointer& connection, std::uint64_t session,
                     const EntryCredit& credit);
  void remote_entry(StageIndex boundary, const ConnectionPointer& connection, std::uint64_t session,
                    const Entry& entry);
  void remote_blocked(StageIndex boundary, const ConnectionPointer& connection, const BatchPosition& position,
                      std::uint64_t bytes);

  void boundary_lost(StageIndex boundary, const ConnectionPointer& connection);
  void control_lost(const ConnectionPointer& connection);

  // StagePorts
  void hello(StageIndex stage, std::uint64_t session, const BatchPosition& first_lacking) override;
  void credit(StageIndex stage, std::uint64_t session, const EntryCredit& credit) override;
  void entry(StageIndex stage, std::uint64_t session, const Entry& entry) override;
  void blocked(StageIndex stage, std::uint64_t session, const BatchPosition& position,
               std::uint64_t bytes) override;
  void report(const ControlWord& word) override;
  void buffers_made(StageIndex stage) override;
  void outbound_gone(StageIndex stage) override;
  void stage_failed(StageIndex stage, const std::string& cause) override;

  [[nodiscard]] const Life& life() const { return life_; }
  [[nodiscard]] Stage* stage(StageIndex index);
  [[nodiscard]] const ConnectionPointer& control() const { return control_; }

 private:
  /// The way into a stage.
  struct InWay {
    std::uint64_t upstream = nowhere;  // its machine
    ConnectionPointer connection;
    std::uint64_t session = 0;
    std::uint64_t dial = 0;  // the latest attempt
    ReconnectPolicy policy;
  };

  void dial_coordinator();
  void retry_coordinator();
  void pump();
  void obey(const ControlWord& word);
  void assign(const ControlWord& word);
  [[nodiscard]] bool local(StageIndex boundary) const;
  void dial(StageIndex boundary);
  void retry(StageIndex boundary);
  void connect(StageIndex boundary);
  void upstream_is(StageIndex boundary, std::uint64_t machine);
  [[nodiscard]] ReconnectPolicy redial_policy() const;

  Cluster& cluster_;
  Machine& machine_;
  std::uint64_t process_;
  Life life_ = new_life();
  std::map<StageIndex, std::unique_ptr<Stage>> stages_;
  std::map<StageIndex, InWay> ways_in_;         // by the stage they lead into
  std::map<StageIndex, BoundaryWay> ways_out_;  // by the stage they lead into
  ConnectionPointer control_;
  std::uint64_t control_dial_ = 0;
  ReconnectPolicy control_policy_;
  std::uint64_t conversation_ = 0;
  MessageStreamCore stream_;
  WindowIndex line_;
  std::optional<WindowIndex> end_at_;
};

}  // namespace zerolock::simulation
