#include "supervision/remote_cluster.hpp"

#include <algorithm>
#include <utility>

#include "actors/checkpoint_files.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

/// Who hosts each stage.
std::vector<std::size_t> hosts_of(const std::vector<std::vector<StageIndex>>& spread) {
  std::vector<std::size_t> hosts;
  for (std::size_t executor = 0; executor < spread.size(); ++executor) {
    hosts.insert(hosts.end(), spread[executor].size(), executor);
  }
  return hosts;
}

/// The assignments of all executors, with the neighbours of each stage.
std::vector<ExecutorAssignment> assignments(const ClusterPlan& plan, const Assignment& common,
                                            const Neighbour& coordinator,
                                            const std::vector<ExecutorCard>& cards) {
  const auto spread = spread_stages(plan.stages, cards.size());
  const std::vector<std::size_t> hosts = hosts_of(spread);
  std::vector<ExecutorAssignment> result(cards.size());
  for (std::size_t executor = 0; executor < cards.size(); ++executor) {
    if (spread[executor].empty()) continue;
    Assignment own = common;
    own.hosted = spread[executor];
    const StageIndex first = own.hosted.front();
    const StageIndex last = own.hosted.back();
    if (first.value == 0) {
      own.upstreams[first] = coordinator;
    } else {
      const ExecutorCard& before = cards[hosts[first.value - 1]];
      own.upstreams[first] = {before.name, false, before.data_address};
    }
    if (last.next().value < plan.stages) {
      own.downstreams[last.next()] = {cards[hosts[last.next().value]].name, false, ""};
    }
    ExecutorAssignment& assignment = result[executor];
    assignment.stages = {own.hosted.begin(), own.hosted.end()};
    assignment.text = assignment_text(own);
    assignment.initial_window = WindowIndex{plan.first_window.value - 1};
    if (plan.resume_from.empty()) continue;
    for (const StageIndex stage : own.hosted) {
      const StageState& state = plan.resume_from[stage.value];
      assignment.initial_states[stage] = serialise_safetensors(state.tensors, state.metadata);
    }
  }
  return result;
}

}  // namespace

RemoteCluster::RemoteCluster(RemoteClusterOptions options)
    : options_(std::move(options)), network_(std::make_shared<Network>()) {
  if (options_.board) status_ = std::make_unique<StatusServer>(options_.board);
  ListenOptions listen;
  listen.address = options_.listen;
  listen.security = options_.security;
  listen.welcome = {{NodeRole::coordinator, options_.name}, program_version, options_.run_id};
  listen.token = options_.token;
  ListenEvents events;
  events.hello = [this](const Hello& hello) { return answer(hello); };
  events.accepted = [this](std::shared_ptr<Connection> connection, const Hello& hello) {
    accepted(connection, hello);
  };
  events.rejected = options_.note;
  listener_ = network_->listen(std::move(listen), std::move(events));
  public_address_ = listener_->address();
}

RemoteCluster::~RemoteCluster() {
  listener_.reset();
  network_.reset();
}

void RemoteCluster::lost(const std::string& node, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (executors_) caf::anon_send(executors_, lost_atom::value, node, cause);
}

HelloAnswer RemoteCluster::answer(const Hello& hello) {
  if (const std::string reason = refusal_of(hello, options_.run_id); !reason.empty()) return Refusal{reason};
  // Any node of the cluster may look, the coordinator's own machine too.
  if (hello.node.role != NodeRole::executor && hello.purpose != ConnectionPurpose::status) {
    return Refusal{"only executors are let in here"};
  }
  switch (hello.purpose) {
    case ConnectionPurpose::boundary:
      return entrance_.answer(hello);
    case ConnectionPurpose::control: {
      const std::lock_guard lock(mutex_);
      return HelloAccepted{control_options(payload_bytes_max_)};
    }
    case ConnectionPurpose::weights:
      if (options_.weights) return HelloAccepted{options_.weights->options()};
      break;
    case ConnectionPurpose::status:
      return status_ ? status_->answer() : Refusal{"this run is not shown"};
  }
  return Refusal{"weights are not given here"};
}

void RemoteCluster::accepted(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  if (hello.purpose == ConnectionPurpose::boundary) {
    entrance_.accepted(connection, hello);
    return;
  }
  if (hello.purpose == ConnectionPurpose::weights) {
    options_.weights->serve(connection);
    return;
  }
  if (hello.purpose == ConnectionPurpose::status) {
    status_->serve(connection);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (executors_) {
    caf::anon_send(executors_, accept_atom::value, hello.node.name, AcceptedConnection{connection});
  } else {
    connection->close("no run is here yet");
  }
}

ClusterOutcome RemoteCluster::run(const ClusterPlan& plan, const RemoteRun& run,
                                  const std::shared_ptr<const MicroBatchProvider>& batches,
                                  MemoryAccount& source_account, const std::function<bool()>& stop_requested,
                                  const ClusterObserver& observer) {
  BoundaryTerms terms;
  terms.limits = {run.common.rows_max, run.common.sequences_max, 0, run.common.vocabulary};
  terms.depth = plan.depth;
  terms.buffer_bytes_max = plan.buffer_bytes_max;
  const Neighbour coordinator{options_.name, true, public_address_.text()};
  const auto spawn = [&](caf::local_actor& parent, const CoordinatorPorts& ports) -> ExecutorsActor {
    RemoteExecutorsSetup setup;
    setup.executors_wanted = run.executors;
    setup.stop_requested = stop_requested;
    setup.checkpoints = plan.checkpoints;
    setup.payload_bytes_max = run.state_bytes_max;
    setup.note = options_.note;
    if (options_.board) setup.observer = executor_observer(options_.board);
    // The first stage's node is known once all have joined; then its way in opens.
    const auto door = spawn_boundary_door(parent, terms);
    caf::anon_send(door, ports_atom::value, StageIndex{0}, UpstreamActor{ports.source});
    setup.assign = [this, &plan, &run, terms, coordinator, door](const std::vector<ExecutorCard>& cards) {
      auto result = assignments(plan, run.common, coordinator, cards);
      entrance_.open(plan.run_id, terms, run.link, {{StageIndex{0}, {cards.front().name, false, ""}}}, door);
      return result;
    };
    const auto executors = spawn_remote_executors(parent, std::move(setup), ports);
    const std::lock_guard lock(mutex_);
    payload_bytes_max_ = run.state_bytes_max;
    executors_ = executors;
    return executors;
  };
  // Handles that outlive the actors would keep their system from ending.
  struct Forget {
    RemoteCluster& cluster;
    void operator()() const {
      cluster.entrance_.close();
      const std::lock_guard lock(cluster.mutex_);
      cluster.executors_ = nullptr;
    }
  } const forget{*this};
  if (!options_.board) {
    return run_cluster(plan, batches, source_account, stop_requested, observer, spawn, forget);
  }
  options_.board->begin(plan.first_window, plan.last_window, calibrates(plan));
  ClusterOutcome outcome = run_cluster(plan, batches, source_account, stop_requested,
                                       watched(options_.board, observer), spawn, forget);
  options_.board->end(outcome.kind);
  status_->finish();
  return outcome;
}

std::vector<std::vector<StageIndex>> spread_stages(std::uint64_t stages, std::uint64_t executors) {
  ZEROLOCK_INVARIANT(executors > 0, "somebody has joined");
  std::vector<std::vector<StageIndex>> spread(executors);
  const std::uint64_t each = stages / executors;
  const std::uint64_t more = stages % executors;
  std::uint64_t next = 0;
  for (std::uint64_t executor = 0; executor < executors; ++executor) {
    const std::uint64_t count = each + (executor < more ? 1 : 0);
    for (std::uint64_t i = 0; i < count; ++i) spread[executor].push_back(StageIndex{next++});
  }
  return spread;
}

}  // namespace zerolock
