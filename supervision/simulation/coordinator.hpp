#pragma once
/// The simulated coordinator process: journal, placement, scheduler, batch source, the copies of checkpoints,
/// and a conversation with each executor.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/core/batch_source_core.hpp"
#include "actors/core/journal.hpp"
#include "actors/core/message_stream_core.hpp"
#include "actors/core/placement_core.hpp"
#include "actors/core/scheduler_core.hpp"
#include "supervision/simulation/control_word.hpp"
#include "supervision/simulation/executor.hpp"

namespace zerolock::simulation {

class Coordinator {
 public:
  /// Goes on from the journal if there is one.
  Coordinator(Cluster& cluster, std::uint64_t process);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void start();
  /// Nothing more happens in it.
  void end() { life_.reset(); }
  /// An orderly stop; false: the run has not begun.
  bool stop();

  /// First word of an executor's process on a new connection.
  struct Hello {
    std::size_t machine = 0;
    std::uint64_t process = 0;
    WeakLife life;
    std::uint64_t number = 0;
    struct Running {
      PlacedStage placed;
      Incarnation incarnation;
      WindowsDone committed;
      WindowsDone durable;
    };
    std::vector<Running> running;
    std::uint64_t conversation = 0;
    std::uint64_t lacking = 0;
  };
  void admit(const Hello& hello);
  void on_control(std::size_t from, const ConnectionPointer& connection, std::uint64_t number,
                  const std::string& body);
  void on_acknowledged(std::size_t from, std::uint64_t lacking);
  /// Whoever watches that process has seen it end.
  void process_gone(std::size_t machine, std::uint64_t process);

  // Boundary 0.
  void admit_downstream(const BoundaryDial& dial);
  void remote_hello(const ConnectionPointer& connection, std::uint64_t session,
                    const BatchPosition& first_lacking);
  void remote_credit(const ConnectionPointer& connection, std::uint64_t session, const EntryCredit& credit);

  [[nodiscard]] const Life& life() const { return life_; }
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] std::size_t spares() const { return placement_.spares().size(); }

 private:
  struct Member {
    std::uint64_t process = 0;  // the latest known
    std::uint64_t conversation = 0;
    ConnectionPointer connection;
    MessageStreamCore stream;
    std::deque<std::pair<std::uint64_t, std::string>> inbox;
    bool busy = false;  // writes a checkpoint
  };

  void recall(const JournalState& journal);
  void keep(const JournalRecord& record, std::function<void()> then);
  // Orders of the cores.
  void carry_out(const PlacementOrders& orders);
  void dismiss(const std::string& node);
  void assign(const PlacementOrders::Assign& order);
  void announce_assignment(std::size_t machine, const std::vector<PlacedStage>& stages);
  void tell_neighbours(std::size_t machine, const PlacedStage& placed);
  void run();
  void carry_out(const SchedulerOrders& orders);
  void announce(const SchedulerOrders& orders);
  void arm();
  // Members.
  void reattached(const Hello& hello);
  void connection_lost(std::size_t machine, const ConnectionPointer& connection);
  void place_first();
  void push(std::size_t machine, const ControlWord& word);
  void pump(std::size_t machine);
  void read(std::size_t machine);
  void acknowledge(std::size_t machine);
  void committed(const ControlWord& word);
  void copy(std::size_t machine, const ControlWord& word);
  void durable(StageIndex stage, WindowIndex window);
  [[nodiscard]] bool current(const ControlWord& word) const;
  [[nodiscard]] std::optional<std::size_t> machine_of(StageIndex stage) const;
  void feed();

  Cluster& cluster_;
  std::uint64_t process_;
  std::uint64_t conversations_ = 0;
  Life life_ = new_life();
  Lane journal_lane_;
  PlacementCore placement_;
  SchedulerCore scheduler_;
  BatchSourceCore source_;
  std::uint64_t source_session_ = 0;
  BoundaryWay way_;  // into stage 0
  std::vector<Member> members_;
  std::vector<std::size_t> had_last_;  // by stage: the machine that it was last placed on
  std::optional<WindowIndex> line_;
  std::optional<WindowIndex> end_at_;
  std::optional<Time> armed_;
  bool placed_ = false;
  bool running_ = false;
};

}  // namespace zerolock::simulation
