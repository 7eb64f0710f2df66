#include "supervision/executor_root.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "actors/checkpoint_files.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/remote/boundary_door.hpp"
#include "actors/remote/inbound_link.hpp"
#include "supervision/children.hpp"
#include "supervision/executor_supervisor.hpp"
#include "supervision/fault_injector.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

enum Child : std::size_t { link_child, door_child, supervisor_child, child_count };

/// Sessions of a later placement of a stage are above all of an earlier one.
constexpr int session_bits = 20;

/// Makes the backends' factory in the thread of the first stage that starts, and keeps it. A try that fails
/// is made again by the next life of a worker.
class PreparedOnce {
 public:
  PreparedOnce(std::function<BackendFactory(const Preparation&)> prepare, Assignment assignment,
               std::shared_ptr<Network> network, std::shared_ptr<const std::atomic<bool>> leaving)
      : prepare_(std::move(prepare)),
        assignment_(std::move(assignment)),
        network_(std::move(network)),
        leaving_(std::move(leaving)) {}

  std::unique_ptr<StageBackend> make(StageIndex stage, MemoryAccount& account) {
    BackendFactory factory;
    {
      const std::lock_guard lock(mutex_);
      if (!factory_) factory_ = prepare_({assignment_, *network_, [this] { return leaving_->load(); }});
      factory = factory_;
    }
    return factory(stage, account);
  }

 private:
  std::mutex mutex_;
  std::function<BackendFactory(const Preparation&)> prepare_;
  Assignment assignment_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<const std::atomic<bool>> leaving_;
  BackendFactory factory_;
};

/// Where the upstreams of this process's stages are, and the links that have to know. The executor supervisor
/// spawns those in its own time, so word of a move may come before the link that it is for.
class UpstreamDirectory {
 public:
  void moved(const control::UpstreamMoved& where) {
    const std::lock_guard lock(mutex_);
    moved_[where.boundary] = where;
    tell(where.boundary);
  }
  void spawned(StageIndex boundary, const MovableInboundLinkActor& link) {
    const std::lock_guard lock(mutex_);
    links_[boundary] = link;
    tell(boundary);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    links_.clear();
  }

 private:
  void tell(StageIndex boundary) {
    const auto link = links_.find(boundary);
    const auto where = moved_.find(boundary);
    if (link == links_.end() || where == moved_.end()) return;
    caf::anon_send(link->second, moved_atom::value, where->second.node, where->second.address);
  }

  std::mutex mutex_;
  std::map<StageIndex, control::UpstreamMoved> moved_;  // the latest word of each
  std::map<StageIndex, MovableInboundLinkActor> links_;
};

class ExecutorRoot final : public ExecutorRootActor::base {
 public:
  ExecutorRoot(caf::actor_config& config, caf::actor_addr parent, ExecutorRootSetup setup)
      : ExecutorRootActor::base(config), parent_(parent), setup_(std::move(setup)) {
    contain_failures(this);
    monitor(parent);
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](caf::exit_msg&) { leave("it was told to go"); });
  }

  [[nodiscard]] const char* name() const override { return "executor root"; }

  behavior_type make_behavior() override {
    CoordinatorLinkSetup link;
    link.card = setup_.plan.card;
    link.network = setup_.network;
    link.dial =
        dial_to(setup_.plan.coordinator, {NodeRole::coordinator, std::nullopt}, ConnectionPurpose::control);
    link.payload_bytes_max = payload_bytes_max;
    link.checkpoints = checkpoints();
    link.owner = caf::actor_cast<CoordinatorListenerActor>(this);
    link.note = setup_.plan.note;
    link.watch = setup_.plan.watch;
    link_ = spawn_coordinator_link(*this, std::move(link));
    children_.started(link_child, caf::actor_cast<caf::actor>(link_));
    return {[this](control_atom, const ReceivedControl& received) { on_control(received); },
            [this](stop_atom) { leave("it was stopped"); }};
  }

  void on_exit() override {
    setup_.entrance->close();
    children_.clear();
    link_ = nullptr;
    door_ = nullptr;
    supervisor_ = nullptr;
    upstreams_->clear();
    setup_ = {};
  }

 private:
  [[nodiscard]] std::filesystem::path checkpoints() const { return setup_.plan.work / "checkpoints"; }

  /// Boundaries name the run and the exact node; the first connection to the coordinator learns the run.
  [[nodiscard]] DialOptions dial_to(const Address& address, const ExpectedPeer& peer,
                                    ConnectionPurpose purpose) const {
    DialOptions dial;
    dial.address = address;
    dial.security = setup_.plan.security;
    dial.hello.node = {NodeRole::executor, setup_.plan.name};
    dial.hello.program_version = program_version;
    dial.hello.purpose = purpose;
    dial.hello.token = setup_.plan.token;
    dial.peer = peer;
    return dial;
  }

  // -- what the coordinator says

  void on_control(const ReceivedControl& received) {
    if (const auto* state = std::get_if<control::InitialState>(&received.message)) {
      write_checkpoint_bytes(setup_.plan.work / "initial", state->stage, state->window,
                             text_of(received.payload));
      initial_[state->stage] = state->window;
    } else if (const auto* kept = std::get_if<control::KeptState>(&received.message)) {
      write_checkpoint_bytes(checkpoints(), kept->stage, kept->window, text_of(received.payload));
      if (setup_.plan.watch) {
        setup_.plan.watch(
            {TrafficItem::Kind::state_given, kept->stage, {kept->window, 0}, received.payload.nbytes(), 0});
      }
    } else if (const auto* assigned = std::get_if<control::Assigned>(&received.message)) {
      start(assignment_from_text("assignment", assigned->assignment));
    } else if (const auto* upstream = std::get_if<control::UpstreamMoved>(&received.message)) {
      upstreams_->moved(*upstream);
    } else if (const auto* downstream = std::get_if<control::DownstreamMoved>(&received.message)) {
      setup_.entrance->admit(downstream->boundary, {downstream->node, false, "", downstream->placement});
    } else if (const auto* ordered = std::get_if<control::FaultOrdered>(&received.message)) {
      if (injector_) injector_->add(parse_fault(ordered->fault, "the coordinator's fault"));
    } else if (std::holds_alternative<control::SummaryWanted>(received.message)) {
      summarise();
    } else if (const auto* over = std::get_if<control::RunOver>(&received.message)) {
      end_.finished = over->reason.empty();
      end_.rejoin = over->rejoin;
      end_.failure = over->reason;
      leave("");
    }
  }

  void start(const Assignment& assignment) {
    if (supervisor_ || closing_) return;
    hosted_ = assignment.hosted.size();
    std::vector<PlacedStage> running;
    for (std::size_t i = 0; i < hosted_; ++i)
      running.push_back({assignment.hosted[i], assignment.placements[i]});
    send(link_, running_atom::value, assignment.session, running);
    injector_ = injector_for(assignment);
    door_ = spawn_boundary_door(*this, boundary_terms(assignment, StageIndex{1}));
    children_.started(door_child, caf::actor_cast<caf::actor>(door_));
    setup_.entrance->open(assignment.run_id, boundary_terms(assignment, StageIndex{1}), setup_.plan.link,
                          assignment.downstreams, door_);
    ExecutorSetup executor;
    executor.card = setup_.plan.card;
    executor.commons = std::make_shared<const StageCommons>(commons_of(assignment));
    executor.stages = stages_of(assignment);
    executor.links.door = door_;
    executor.links.dial = [this, assignment](caf::local_actor& parent, StageIndex boundary) {
      return dial_boundary(parent, assignment, boundary);
    };
    executor.process_bytes_peak = process_bytes_peak;
    supervisor_ = spawn_executor_supervisor(*this, std::move(executor));
    children_.started(supervisor_child, caf::actor_cast<caf::actor>(supervisor_));
    std::string names;
    for (const StageIndex stage : assignment.hosted) {
      names += (names.empty() ? "" : ", ") + std::to_string(stage.value);
    }
    setup_.plan.note("runs stage " + names + " of run " + assignment.run_id);
  }

  [[nodiscard]] BoundaryTerms boundary_terms(const Assignment& assignment, StageIndex boundary) const {
    BoundaryTerms terms = terms_of(assignment, boundary);
    terms.faults = link_faults_;
    terms.watch = setup_.plan.watch;
    return terms;
  }

  /// Faults happen in the first placement of their stage: where they have ended a process, its successor must
  /// not meet them again.
  [[nodiscard]] std::shared_ptr<FaultInjector> injector_for(const Assignment& assignment) const {
    std::vector<Fault> faults;
    for (const Fault& fault : assignment.faults) {
      for (std::size_t i = 0; i < assignment.hosted.size(); ++i) {
        const bool first = assignment.placements[i] == Placement{1};
        if (assignment.hosted[i] == fault.stage && first) faults.push_back(fault);
      }
    }
    FaultTargets targets;
    targets.checkpoints = checkpoints();
    targets.drop_links = [links = link_faults_](StageIndex) { links->drop("an injected fault"); };
    targets.corrupt_next_frame = [links = link_faults_](StageIndex) { links->damage_next_entry(); };
    targets.note = setup_.plan.note_fault ? setup_.plan.note_fault : setup_.plan.note;
    return std::make_shared<FaultInjector>(std::move(faults), std::move(targets));
  }

  /// A worker that hangs may outlive this actor, and keeps what it hangs in.
  [[nodiscard]] FaultHook fault_hook() const {
    return [injector = injector_, ordered = injector_->hook(), given = setup_.plan.fault](
               FaultPoint point, StageIndex stage, Incarnation incarnation, const BatchPosition& position) {
      if (given) given(point, stage, incarnation, position);
      ordered(point, stage, incarnation, position);
    };
  }

  [[nodiscard]] StageCommons commons_of(const Assignment& assignment) const {
    StageCommons commons;
    commons.stages = assignment.partition.size();
    commons.first_window = assignment.first_window;
    commons.calibrates = assignment.calibrates;
    commons.checkpoints = {assignment.checkpoint_every,
                           std::max(assignment.last_window, WindowIndex{assignment.first_window.value - 1})};
    commons.micro_batches = assignment.micro_batches;
    commons.depth = assignment.depth;
    commons.buffer_bytes_max = assignment.buffer_bytes_max;
    commons.replay_batch = assignment.replay_batch;
    commons.checkpoint_root = checkpoints();
    commons.intensity.restarts_max = assignment.restarts_max;
    commons.intensity.period = std::chrono::seconds(assignment.restart_seconds);
    // Spans of all processes count from the same moment, but for what the assignment took to come here.
    commons.run_start = std::chrono::steady_clock::now() - assignment.since_run_start;
    commons.fault = fault_hook();
    commons.compute_limits.floor = std::chrono::milliseconds(assignment.hang_after_milliseconds);
    commons.hangs = setup_.hangs;
    commons.scheduler = SchedulerActor{link_};
    commons.targets = TargetsHolderActor{link_};
    commons.recorder = RunRecorderActor{link_};
    commons.report_queues = [link = link_](const StageQueues& queues) {
      caf::anon_send(link, control_atom::value, ReceivedControl{control::QueuesSeen{queues}, {}});
    };
    return commons;
  }

  [[nodiscard]] std::vector<StageSupervisorSetup> stages_of(const Assignment& assignment) {
    const auto prepared =
        std::make_shared<PreparedOnce>(setup_.plan.prepare, assignment, setup_.network, leaving_);
    std::vector<StageSupervisorSetup> stages;
    for (std::size_t i = 0; i < assignment.hosted.size(); ++i) {
      const StageIndex index = assignment.hosted[i];
      MemoryAccount& account = *setup_.accounts->emplace_back(std::make_unique<MemoryAccount>());
      StageSupervisorSetup stage;
      stage.stage = index;
      stage.account = &account;
      stage.fresh = assignment.placements[i] == Placement{1};
      stage.incarnation_before = incarnation_before(assignment.placements[i]);
      stage.make_backend = [prepared, index, &account] { return prepared->make(index, account); };
      if (assignment.resumed) {
        const auto given = initial_.find(index);
        if (given == initial_.end()) throw RunError("the coordinator sent no state for a resumed stage");
        stage.initial.state = std::make_shared<const StageState>(
            read_checkpoint(setup_.plan.work / "initial", index, given->second));
      }
      stages.push_back(std::move(stage));
    }
    return stages;
  }

  [[nodiscard]] InboundLinkActor dial_boundary(caf::local_actor& parent, const Assignment& assignment,
                                               StageIndex boundary) {
    const Neighbour& upstream = assignment.upstreams.at(boundary);
    Address address = setup_.plan.coordinator;
    InboundLinkSetup link;
    link.boundary = boundary;
    link.upstream_known = upstream.coordinator || !upstream.node.empty();
    if (!upstream.coordinator && link.upstream_known) {
      address = parse_address(upstream.address, "the upstream's address");
    }
    link.terms = boundary_terms(assignment, boundary);
    link.network = setup_.network;
    link.dial =
        dial_to(address, {upstream.coordinator ? NodeRole::coordinator : NodeRole::executor, upstream.node},
                ConnectionPurpose::boundary);
    link.dial.hello.run = assignment.run_id;
    link.dial.hello.boundary = boundary;
    for (std::size_t i = 0; i < assignment.hosted.size(); ++i) {
      if (assignment.hosted[i] != boundary) continue;
      link.account = setup_.accounts->at(i).get();
      link.dial.hello.placement = assignment.placements[i].value;
      link.first_session = assignment.placements[i].value << session_bits;
    }
    link.note = setup_.plan.note;
    auto spawned = spawn_inbound_link(parent, std::move(link));
    upstreams_->spawned(boundary, spawned);
    return spawned;
  }

  void summarise() {
    if (!supervisor_) return;
    request(supervisor_, deadlines.stage_summary, summary_atom::value)
        .then(
            [this](const std::vector<StageSummary>& stages) {
              send(link_, control_atom::value, ReceivedControl{control::SummaryGiven{stages}, {}});
            },
            [this](caf::error& error) { setup_.plan.note("no summary because " + cause_of(error)); });
  }

  // -- the end

  void on_down(const caf::down_msg& down) {
    if (down.source == parent_) {
      quit(caf::exit_reason::user_shutdown);
      return;
    }
    const auto child = children_.find(down.source);
    if (!child) return;
    const bool expected = children_.down(*child);
    if (!expected && !closing_) failed(*child, down.reason);
    continue_stop();
  }

  void failed(std::size_t child, const caf::error& reason) {
    end_.failure = cause_of(reason);
    end_.bad_input = is_bad_input(reason);
    if (child != link_child && link_) {
      send(link_, control_atom::value,
           ReceivedControl{control::ExecutorFailed{end_.failure, end_.bad_input}, {}});
    }
    leave(end_.failure);
  }

  void leave(const std::string& failure) {
    if (closing_) return;
    closing_ = true;
    leaving_->store(true);
    if (!failure.empty() && end_.failure.empty()) end_.failure = failure;
    children_.stop_from(door_child);
    continue_stop();
  }

  /// The link goes last, by itself, when the goodbye has arrived.
  void continue_stop() {
    if (!closing_ || !children_.continue_stop(this)) return;
    if (children_.running(link_child)) {
      if (std::exchange(said_goodbye_, true)) return;
      supervisor_ = nullptr;
      door_ = nullptr;
      upstreams_->clear();
      setup_.entrance->close();
      send(link_, control_atom::value, ReceivedControl{control::ExecutorLeft{hosted_}, {}});
      return;
    }
    caf::anon_send(setup_.owner, ended_atom::value, end_);
    quit(caf::exit_reason::normal);
  }

  /// A state with all its moments, or the targets of a calibration; from a coordinator that has proven
  /// itself.
  static constexpr std::uint64_t payload_bytes_max = std::uint64_t{4} << 30;

  caf::actor_addr parent_;
  ExecutorRootSetup setup_;
  Children children_{child_count};
  CoordinatorLinkActor link_;
  OpenBoundaryDoorActor door_;
  ExecutorSupervisorActor supervisor_;
  const std::shared_ptr<UpstreamDirectory> upstreams_ = std::make_shared<UpstreamDirectory>();
  std::map<StageIndex, WindowIndex> initial_;  // windows of the states that have been sent
  const std::shared_ptr<LinkFaults> link_faults_ = std::make_shared<LinkFaults>();
  std::shared_ptr<FaultInjector> injector_;  // once there are stages
  std::uint64_t hosted_ = 0;
  ExecutorEnd end_;
  bool closing_ = false;
  bool said_goodbye_ = false;
  const std::shared_ptr<std::atomic<bool>> leaving_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

ExecutorRootActor spawn_executor_root(caf::local_actor& parent, ExecutorRootSetup setup) {
  return parent.spawn<ExecutorRoot, caf::monitored + caf::detached>(parent.address(), std::move(setup));
}

}  // namespace zerolock
