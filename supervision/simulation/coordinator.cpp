#include "supervision/simulation/coordinator.hpp"

#include <algorithm>
#include <charconv>

namespace zerolock::simulation {
namespace {

std::size_t number_of(const std::string& node) {
  std::size_t number = 0;
  const std::size_t dash = node.rfind('-') + 1;
  std::from_chars(node.data() + dash, node.data() + node.size(), number);
  return number;
}

}  // namespace

Coordinator::Coordinator(Cluster& cluster, std::uint64_t process)
    : cluster_(cluster),
      process_(process),
      placement_(cluster.scenario.placement),
      scheduler_(cluster.scenario.scheduler()),
      source_(cluster.scenario.micro_batch_count()),
      members_(cluster.machines.size()),
      had_last_(cluster.scenario.stages) {}

void Coordinator::start() {
  const std::optional<JournalState> journal = replay(cluster_.journal->records());
  if (!journal) {
    keep({JournalRecord::Kind::run_started, {}, {}, "simulated"}, [] {});
  } else if (journal->over) {
    cluster_.checker.finished(journal->ends_at.value_or(cluster_.scenario.last_window), cluster_.copies);
    cluster_.finished = true;
  } else {
    recall(*journal);
  }
}

void Coordinator::recall(const JournalState& journal) {
  // Nobody was told of a first placement that the journal has in part.
  if (journal.placed.size() < cluster_.scenario.stages) return;
  for (const auto& [stage, placed] : journal.placed) {
    placement_.remember(placed.node, {stage, placed.placement}, cluster_.timeline.now());
    had_last_.at(stage.value) = number_of(placed.node);
  }
  placed_ = true;
  end_at_ = journal.ends_at;
  scheduler_.remember(journal);
  run();
  arm();
}

/// A record after the other; what depends on it happens once it is kept.
void Coordinator::keep(const JournalRecord& record, std::function<void()> then) {
  cluster_.timeline.along(journal_lane_, cluster_.jitter(cluster_.scenario.journal),
                          cluster_.coordinator_host, life_, [this, record, then = std::move(then)] {
                            cluster_.journal->append(record);
                            then();
                          });
}

// -- placement

void Coordinator::carry_out(const PlacementOrders& orders) {
  if (orders.pause) {
    cluster_.paused = *orders.pause;
    return;
  }
  for (const std::string& node : orders.dismiss) dismiss(node);
  for (const PlacementOrders::Assign& order : orders.assign) assign(order);
  arm();
}

void Coordinator::dismiss(const std::string& node) {
  const std::size_t machine = number_of(node);
  Member& member = members_.at(machine);
  if (cluster_.mutated(Mutation::no_placement_fencing)) return;
  member.conversation = 0;
  member.inbox.clear();
  if (!member.connection) return;
  cluster_.network.send(member.connection, 1,
                        [&other = *cluster_.machines.at(machine), process = member.process] {
                          if (other.executor && other.processes == process) other.executor->dismissed();
                        });
}

void Coordinator::assign(const PlacementOrders::Assign& order) {
  const std::size_t machine = number_of(order.node);
  for (const PlacedStage& placed : order.stages) {
    std::size_t& had_last = had_last_.at(placed.stage.value);
    if (placed.placement.value > 1) cluster_.checker.placed_again(placed.stage, had_last);
    had_last = machine;
    const bool last = placed == order.stages.back();
    keep({JournalRecord::Kind::stage_placed, placed.stage, WindowIndex{placed.placement.value}, order.node},
         [this, machine, stages = order.stages, last] {
           if (last) announce_assignment(machine, stages);
         });
  }
}

void Coordinator::announce_assignment(std::size_t machine, const std::vector<PlacedStage>& stages) {
  // What was ordered while the journal wrote counts for more.
  if (placement_.stages_of(cluster_.machines.at(machine)->name()) != stages) return;
  if (!running_) run();
  if (end_at_) push(machine, {ControlWord::Kind::end_at, {}, {}, {}, *end_at_, 0, 0, nowhere});
  for (const PlacedStage& placed : stages) {
    for (const WindowIndex window : cluster_.copies.windows(placed.stage)) {
      const StoredCheckpoint copy = *cluster_.copies.read(placed.stage, window);
      push(machine,
           {ControlWord::Kind::checkpoint, placed.stage, {}, {}, window, copy.value, copy.checksum, nowhere});
    }
    push(machine, {ControlWord::Kind::assign,
                   placed.stage,
                   placed.placement,
                   {},
                   line_.value_or(WindowIndex{0}),
                   0,
                   0,
                   nowhere});
  }
  for (const PlacedStage& placed : stages) tell_neighbours(machine, placed);
}

std::optional<std::size_t> Coordinator::machine_of(StageIndex stage) const {
  const auto node = placement_.node_of(stage);
  return node ? std::optional(number_of(*node)) : std::nullopt;
}

/// The stage learns where its neighbours are, and they where it is.
void Coordinator::tell_neighbours(std::size_t machine, const PlacedStage& placed) {
  using Kind = ControlWord::Kind;
  const StageIndex stage = placed.stage;
  const auto upstream_word = [](StageIndex of, std::uint64_t node) {
    return ControlWord{Kind::upstream, of, {}, {}, {}, 0, 0, node};
  };
  const auto downstream_word = [](StageIndex of, Placement placement, std::uint64_t node) {
    return ControlWord{Kind::downstream, of, placement, {}, {}, 0, 0, node};
  };
  if (stage.value == 0) {
    push(machine, upstream_word(stage, coordinator_machine));
    if (way_.placement < placed.placement) {
      way_.placement = placed.placement;
      if (way_.connection) cluster_.network.close(way_.connection, 1);
      way_.connection.reset();
    }
  } else if (const auto before = machine_of(StageIndex{stage.value - 1})) {
    push(machine, upstream_word(stage, *before));
    push(*before, downstream_word(StageIndex{stage.value - 1}, placed.placement, machine));
  }
  if (stage.value + 1 == cluster_.scenario.stages) return;
  if (const auto after = machine_of(stage.next())) {
    push(machine, downstream_word(stage, placement_.placement_of(stage.next()), *after));
    push(*after, upstream_word(stage.next(), machine));
  }
}

void Coordinator::arm() {
  const auto deadline = placement_.next_deadline();
  if (!deadline || armed_ == deadline) return;
  armed_ = deadline;
  cluster_.timeline.at(*deadline, cluster_.coordinator_host, life_, [this] {
    armed_.reset();
    carry_out(placement_.tick(cluster_.timeline.now()));
  });
}

// -- windows

void Coordinator::run() {
  running_ = true;
  carry_out(scheduler_.start());
}

void Coordinator::durable(StageIndex stage, WindowIndex window) {
  cluster_.log.note(name_of(stage) + " is durable in window " + std::to_string(window.value));
  keep({JournalRecord::Kind::stage_durable, stage, window, {}}, [] {});
  carry_out(scheduler_.durable(stage, window));
  if (cluster_.mutated(Mutation::released_by_downstream) && stage.value > 0) {
    const StageIndex before{stage.value - 1};
    if (const auto machine = machine_of(before)) {
      push(*machine, {ControlWord::Kind::line, before, {}, {}, window, 0, 0, nowhere});
    }
  }
}

bool Coordinator::stop() {
  if (!running_) return false;
  if (scheduler_.stopping()) return true;
  const SchedulerOrders orders = scheduler_.request_stop();
  cluster_.log.note("an orderly stop after window " + std::to_string(scheduler_.last_window().value));
  // Kept before it is told: stages that end here would wait for ever for a coordinator that has forgotten it.
  keep({JournalRecord::Kind::run_ends_at, {}, scheduler_.last_window(), {}},
       [this, orders] { carry_out(orders); });
  return true;
}

void Coordinator::carry_out(const SchedulerOrders& orders) {
  if (orders.grant) {
    if (cluster_.mutated(Mutation::announced_before_journal)) {
      announce(orders);
      cluster_.timeline.after(50 * cluster_.scenario.journal, cluster_.coordinator_host, life_,
                              [this, window = *orders.grant] {
                                keep({JournalRecord::Kind::windows_granted, {}, window, {}}, [] {});
                              });
      return;
    }
    keep({JournalRecord::Kind::windows_granted, {}, *orders.grant, {}}, [this, orders] { announce(orders); });
  } else if (orders.finished) {
    keep({JournalRecord::Kind::run_finished, {}, scheduler_.last_window(), {}},
         [this, orders] { announce(orders); });
  } else {
    announce(orders);
  }
}

void Coordinator::announce(const SchedulerOrders& orders) {
  const auto tell_all = [this](ControlWord::Kind kind, WindowIndex window) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      push(i, {kind, StageIndex{nowhere}, {}, {}, window, 0, 0, nowhere});
    }
  };
  // Orders that come with a grant wait for the journal; a later line may have overtaken them.
  if (orders.recovery_line && WindowsDone{line_} < orders.recovery_line) {
    line_ = orders.recovery_line;
    cluster_.log.note("the recovery line moves to window " + std::to_string(line_->value));
    cluster_.checker.line_announced(*line_, cluster_.copies);
    for (std::uint64_t k = 0; k < cluster_.scenario.stages; ++k)
      cluster_.copies.retire(StageIndex{k}, *line_);
    tell_all(ControlWord::Kind::line, *line_);
  }
  if (orders.end_at) {
    end_at_ = orders.end_at;
    tell_all(ControlWord::Kind::end_at, *end_at_);
  }
  if (orders.grant) {
    cluster_.log.note("windows up to " + std::to_string(orders.grant->value) + " are granted");
    cluster_.checker.granted(*orders.grant, cluster_.checker.true_line());
    source_.grant(*orders.grant);
    feed();
  }
  if (orders.finished) {
    cluster_.checker.finished(scheduler_.last_window(), cluster_.copies);
    cluster_.finished = true;
  }
}

// -- boundary 0

void Coordinator::admit_downstream(const BoundaryDial& dial) {
  Machine& other = *cluster_.machines.at(dial.machine);
  if (other.partitioned) return;
  if (dial.placement < way_.placement && !cluster_.mutated(Mutation::no_session_fencing)) {
    cluster_.network.call(other.host, dial.process, [&other, dial] {
      if (other.executor) other.executor->dial_refused(dial.boundary, dial.number);
    });
    return;
  }
  way_.placement = std::max(way_.placement, dial.placement);
  way_.machine = &other;
  if (way_.connection) cluster_.network.close(way_.connection, 1);
  way_.connection =
      cluster_.network.open("connection into " + name_of(dial.boundary),
                            {&other.host, dial.process,
                             [&other, dial](const ConnectionPointer& gone) {
                               if (other.executor) other.executor->boundary_lost(dial.boundary, gone);
                             }},
                            {&cluster_.coordinator_host, life_, [this](const ConnectionPointer& gone) {
                               if (way_.connection == gone) way_.connection.reset();
                             }});
  cluster_.network.call(other.host, dial.process, [&other, dial, connection = way_.connection] {
    if (other.executor) other.executor->dialled(dial.boundary, dial.number, connection);
  });
}

void Coordinator::remote_hello(const ConnectionPointer& connection, std::uint64_t session,
                               const BatchPosition& first_lacking) {
  if (way_.connection != connection) return;
  if (session < way_.highest_session && !cluster_.mutated(Mutation::no_session_fencing)) return;
  cluster_.checker.session_opened(StageIndex{0}, session, way_.highest_session);
  way_.highest_session = session;
  cluster_.log.note("session " + std::to_string(session) + " into stage 0 asks for " +
                    to_string(first_lacking));
  source_session_ = session;
  source_.resume(first_lacking);
}

void Coordinator::remote_credit(const ConnectionPointer& connection, std::uint64_t session,
                                const EntryCredit& credit) {
  if (way_.connection != connection || session != source_session_) return;
  source_.credit(credit);
  feed();
}

void Coordinator::feed() {
  if (!way_.connection) return;
  while (const auto position = source_.next()) {
    const Entry entry =
        make_entry(*position, Incarnation{0}, source_value(*position), cluster_.scenario.rows(*position));
    if (!source_.sent(entry.bytes())) {
      cluster_.send_blocked(way_, StageIndex{0}, *position, entry.bytes());
      return;
    }
    cluster_.flow_sent(StageIndex{0}, source_session_, entry.bytes());
    cluster_.send_entry(way_, StageIndex{0}, source_session_, entry);
  }
}

}  // namespace zerolock::simulation
