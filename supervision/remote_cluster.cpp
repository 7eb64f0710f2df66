#include "supervision/remote_cluster.hpp"

#include <algorithm>
#include <utility>

#include "actors/deadlines.hpp"
#include "supervision/fault_orders.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/safetensors.hpp"

namespace zerolock {
namespace {

/// The first connection of an executor's downstream, which is not let in: a refusal is an answer.
DialOptions probe_of(const RemoteClusterOptions& options, const ExecutorCard& card) {
  DialOptions dial;
  dial.address = parse_address(card.data_address, "the executor's address");
  dial.security = options.security;
  dial.hello.node = {NodeRole::coordinator, options.name};
  dial.hello.program_version = program_version;
  dial.hello.purpose = ConnectionPurpose::boundary;
  dial.hello.token = options.token;
  dial.peer = {NodeRole::executor, card.name};
  dial.limit = deadlines.probe;
  return dial;
}

}  // namespace

RemoteCluster::RemoteCluster(RemoteClusterOptions options)
    : options_(std::move(options)), network_(std::make_shared<Network>()) {
  if (options_.board) status_ = std::make_unique<StatusServer>(options_.board);
  ListenEvents events;
  events.hello = [this](const Hello& hello) { return answer(hello); };
  events.accepted = [this](std::shared_ptr<Connection> connection, const Hello& hello) {
    accepted(connection, hello);
  };
  events.rejected = options_.note;
  listener_ = network_->listen(listen_options(options_.listen, options_.security, options_.token,
                                              {NodeRole::coordinator, options_.name}, options_.run_id),
                               std::move(events));
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
  if (hello.node.role != NodeRole::executor && hello.purpose != ConnectionPurpose::status &&
      hello.purpose != ConnectionPurpose::inject) {
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
    case ConnectionPurpose::inject:
      return HelloAccepted{fault_taker_options()};
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
  if (hello.purpose == ConnectionPurpose::inject) {
    serve_fault_order(connection, [this](const Fault& fault) { return inject(fault); });
    return;
  }
  const std::lock_guard lock(mutex_);
  if (executors_) {
    caf::anon_send(executors_, accept_atom::value, hello.node.name, AcceptedConnection{connection});
  } else {
    connection->close("no run is here yet");
  }
}

std::string RemoteCluster::inject(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  if (!executors_) return "no run is here yet";
  if (fault.stage.value >= stages_) {
    return "stage " + std::to_string(fault.stage.value) + " is not there; the run has " +
           std::to_string(stages_) + " stages";
  }
  caf::anon_send(executors_, inject_atom::value, fault.stage, to_string(fault));
  return {};
}

ClusterOutcome RemoteCluster::run(const ClusterPlan& plan, const RemoteRun& run,
                                  const std::shared_ptr<const MicroBatchProvider>& batches,
                                  MemoryAccount& source_account, const std::function<bool()>& stop_requested,
                                  const ClusterObserver& observer) {
  const BoundaryTerms terms = terms_of(run.common, StageIndex{0});
  const Neighbour coordinator{options_.name, true, public_address_.text(), {}};
  const auto spawn = [&](caf::local_actor& parent, const CoordinatorPorts& ports) -> ExecutorsActor {
    const auto door = spawn_boundary_door(parent, terms);
    caf::anon_send(door, ports_atom::value, StageIndex{0}, UpstreamActor{ports.source});
    entrance_.open(plan.run_id, terms, run.link, {}, door);
    RemoteExecutorsSetup setup = executors_setup(plan, run, coordinator);
    setup.stop_requested = stop_requested;
    const auto executors = spawn_remote_executors(parent, std::move(setup), ports);
    const std::lock_guard lock(mutex_);
    payload_bytes_max_ = run.state_bytes_max;
    stages_ = plan.stages;
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

RemoteExecutorsSetup RemoteCluster::executors_setup(const ClusterPlan& plan, const RemoteRun& run,
                                                    const Neighbour& coordinator) {
  RemoteExecutorsSetup setup;
  setup.executors_wanted = run.executors;
  setup.placement.stages = plan.stages;
  setup.placement.absence_max = run.absence_limit;
  setup.placement.vacancy_max = run.vacancy_limit;
  setup.placement.losses_max = plan.restarts_max;
  setup.placement.period = plan.restart_period;
  setup.session = plan.session.empty() ? plan.run_id : plan.session;
  setup.recovers = plan.recovers;
  setup.checkpoints = plan.checkpoints;
  setup.payload_bytes_max = run.state_bytes_max;
  setup.note = options_.note;
  if (options_.board) setup.observer = executor_observer(options_.board);
  for (const auto& [node, stages] : run.places) {
    if (!stages.empty()) setup.awaited.insert(node);
  }
  setup.spread = [stages = plan.stages, places = run.places,
                  hosts_before = run.spread_anew ? std::vector<std::string>{} : plan.hosts_before](
                     const std::vector<ExecutorCard>& cards) {
    if (!places.empty()) return places;
    std::vector<std::string> names;
    for (const ExecutorCard& card : cards) names.push_back(card.name);
    return places_on(names, stages, hosts_before);
  };
  Assignment common = run.common;
  common.session = setup.session;
  const auto run_start = std::chrono::steady_clock::now();
  setup.assignment = [common, coordinator, run_start, &plan](const std::vector<PlacedStage>& own,
                                                             const std::vector<StagePlace>& places) {
    ExecutorAssignment assignment;
    Assignment made = assignment_for(common, coordinator, own, places);
    made.since_run_start = std::chrono::steady_clock::now() - run_start;
    assignment.text = assignment_text(made);
    assignment.initial_window = WindowIndex{plan.first_window.value - 1};
    for (const PlacedStage& placed : own) {
      if (plan.resume_from.empty()) continue;
      const StageState& state = plan.resume_from[placed.stage.value];
      assignment.initial_states[placed.stage] = serialise_safetensors(state.tensors, state.metadata);
    }
    return assignment;
  };
  setup.admit_first = [this](const StagePlace& place) {
    entrance_.admit(StageIndex{0}, {place.node, false, "", place.placement});
  };
  setup.probe = [this](const ExecutorCard& card, const std::function<void(std::string)>& nobody_there) {
    network_->dial(probe_of(options_, card), [nobody_there](DialResult result) {
      const auto* failure = std::get_if<DialFailure>(&result);
      if (failure != nullptr && failure->kind == DialFailure::Kind::nobody) nobody_there(failure->reason);
    });
  };
  return setup;
}

}  // namespace zerolock
