#include "supervision/remote_executors.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "actors/core/first_placement.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using probed_atom = caf::atom_constant<caf::atom("probed")>;  // probe -> remote executors: nobody is there

using Type = RemoteExecutorsActor::extend<
    caf::replies_to<opened_atom, std::string, OpenedExecutor>::with<OpenedAnswer>,
    caf::reacts_to<away_atom, std::string, std::string>, caf::reacts_to<back_atom, std::string>,
    caf::reacts_to<probed_atom, std::string, std::uint64_t, std::string>, caf::reacts_to<stop_atom>,
    caf::reacts_to<tick_atom>>;

class RemoteExecutors final : public Type::base {
 public:
  RemoteExecutors(caf::actor_config& config, caf::actor_addr parent, RemoteExecutorsSetup setup,
                  CoordinatorPorts ports)
      : Type::base(config),
        parent_(parent),
        setup_(std::move(setup)),
        ports_(std::move(ports)),
        core_(setup_.placement),
        first_placement_({setup_.executors_wanted, setup_.awaited, setup_.placement.vacancy_max,
                          setup_.placement.losses_max},
                         now()) {
    contain_failures(this);
    monitor(parent);
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](caf::exit_msg&) { close(caf::exit_reason::user_shutdown); });
  }

  [[nodiscard]] const char* name() const override { return "remote executors"; }

  behavior_type make_behavior() override {
    if (setup_.recovers) remember(*setup_.recovers);
    send(this, stop_atom::value);
    return {[this](stop_atom) { look_while_waiting(); },
            [this](tick_atom) {
              armed_for_.reset();
              carry_out(core_.tick(now()));
            },
            [this](accept_atom, const std::string& node, const AcceptedConnection& accepted) {
              accept(node, accepted);
            },
            [this](lost_atom, const std::string& node, const std::string& cause) { lost(node, cause); },
            [this](inject_atom, StageIndex stage, const std::string& fault) { inject(stage, fault); },
            [this](opened_atom, const std::string& node, const OpenedExecutor& opened) {
              return on_opened(node, opened);
            },
            [this](away_atom, const std::string& node, const std::string& cause) { away(node, cause); },
            [this](back_atom, const std::string& node) {
              carry_out(core_.attached(node, core_.stages_of(node), now()));
            },
            [this](probed_atom, const std::string& node, std::uint64_t life, const std::string& cause) {
              const auto known = executors_.find(node);
              const bool same = known != executors_.end() && known->second.away && known->second.card &&
                                known->second.card->placement == life;
              if (same) lost(node, "the process of executor " + node + " is gone: " + cause);
            },
            [this](summary_atom) { return summarise(); }};
  }

  void on_exit() override {
    executors_.clear();
    setup_ = {};
    ports_ = {};
  }

 private:
  struct Executor {
    ExecutorLinkActor link;
    std::optional<ExecutorCard> card;  // of the life that is a member
    bool away = false;
  };

  [[nodiscard]] std::chrono::nanoseconds now() { return clock().now().time_since_epoch(); }

  // -- executors come and go

  void remember(const JournalState& journal) {
    placed_ = true;
    for (const auto& [stage, placed] : journal.placed) {
      core_.remember(placed.node, {stage, placed.placement}, now());
    }
    const auto first = journal.placed.find(StageIndex{0});
    if (first != journal.placed.end()) {
      setup_.admit_first({first->second.node, "", first->second.placement});
    }
    arm();
  }

  void accept(const std::string& node, const AcceptedConnection& accepted) {
    if (closing_) {
      accepted.connection->close("the run has ended");
      return;
    }
    Executor& executor = executors_[node];
    if (!executor.link) {
      ExecutorLinkSetup link;
      link.name = node;
      link.recorder = ports_.recorder;
      link.membership = ports_.membership;
      link.targets = ports_.targets;
      link.scheduler = ports_.scheduler;
      link.checkpoints = setup_.checkpoints;
      link.payload_bytes_max = setup_.payload_bytes_max;
      link.owner = caf::actor_cast<ExecutorOwnerActor>(this);
      link.note = setup_.note;
      link.observer = setup_.observer;
      executor.link = spawn_executor_link(*this, std::move(link));
    }
    send(executor.link, accept_atom::value, accepted);
  }

  OpenedAnswer on_opened(const std::string& node, const OpenedExecutor& opened) {
    const auto known = executors_.find(node);
    if (closing_ || known == executors_.end()) return {"the run has ended", false};
    known->second.card = opened.card;
    known->second.away = false;
    return opened.running.empty() ? on_joined(node, opened.card)
                                  : on_attached(known->second.link, node, opened);
  }

  OpenedAnswer on_joined(const std::string& node, const ExecutorCard& card) {
    setup_.observer.joined(card);
    const PlacementOrders orders = core_.joined(node, now());
    const bool spare = placed_ ? orders.assign.empty() : card.spare;
    if (spare) setup_.observer.assigned(node, {});
    if (placed_ || spare) {
      setup_.note("executor " + node + " has joined" + (spare ? ", stands by as a spare" : ""));
    } else {
      setup_.note("executor " + node + " has joined (" + std::to_string(candidates().size()) + " of " +
                  std::to_string(setup_.executors_wanted) + ")");
    }
    carry_out(orders);
    if (!placed_ && first_placement_.ready(candidates().size(), core_.spares())) place();
    return {};
  }

  /// It has stages from before the coordinator started again, or from before it was given up.
  OpenedAnswer on_attached(const ExecutorLinkActor& link, const std::string& node,
                           const OpenedExecutor& opened) {
    if (opened.session != setup_.session) {
      carry_out(core_.gone(node, "executor " + node + " runs stages of another session", now()));
      setup_.note("executor " + node + " has come with stages of another session, and drops them");
      return {"executor " + node + " runs stages of another session", true};
    }
    PlacementOrders orders = core_.attached(node, opened.running, now());
    if (std::erase(orders.dismiss, node) > 0) {  // the answer says so
      carry_out(orders);
      setup_.note("executor " + node + " has come back with stages that others have now, and drops them");
      return {"others have the stages of executor " + node + " now", true};
    }
    setup_.observer.joined(opened.card);
    setup_.observer.assigned(node, hosted_by(node));
    setup_.note("executor " + node + " has come back with its stages");
    for (const PlacedStage& placed : opened.running) links_of_stages_[placed.stage] = link.address();
    carry_out(orders);
    for (const PlacedStage& placed : opened.running) {
      announce(placed.stage);
      tell_of_neighbours(placed.stage);
    }
    return {};
  }

  void away(const std::string& node, const std::string& cause) {
    const auto known = executors_.find(node);
    if (known == executors_.end() || !known->second.card) return;
    known->second.away = true;
    carry_out(core_.away(node, cause, now()));
    if (!setup_.probe || core_.stages_of(node).empty()) return;
    setup_.probe(*known->second.card,
                 [self = address(), node, life = known->second.card->placement](const std::string& nobody) {
                   if (const auto strong = caf::actor_cast<caf::actor>(self)) {
                     caf::anon_send(strong, probed_atom::value, node, life, nobody);
                   }
                 });
  }

  void lost(const std::string& node, const std::string& cause) {
    if (closing_) return;
    if (!placed_) {
      if (const auto hopeless = first_placement_.lost(cause)) {
        close(make_failure(Failure::permanent, *hopeless));
        return;
      }
    }
    const bool had_stages = !core_.stages_of(node).empty();
    if (had_stages) setup_.note(cause);
    setup_.observer.left(node);
    carry_out(core_.gone(node, cause, now()));
  }

  void look_while_waiting() {
    if (placed_ || closing_) return;
    if (setup_.stop_requested && setup_.stop_requested()) {
      close(make_failure(Failure::permanent, "it was stopped before its executors had joined"));
    } else if (const auto hopeless = first_placement_.over(core_.spares(), now())) {
      close(make_failure(Failure::permanent, *hopeless));
    } else {
      delayed_send(this, deadlines.stop_poll, stop_atom::value);
    }
  }

  // -- stages

  /// Members that may get stages at the first placement, in the order of their names, so that the same ones
  /// always get the same stages.
  [[nodiscard]] std::vector<ExecutorCard> candidates() const {
    std::vector<ExecutorCard> cards;
    for (const std::string& node : core_.spares()) {
      const ExecutorCard& card = *executors_.at(node).card;
      if (!card.spare) cards.push_back(card);
    }
    return cards;
  }

  void place() {
    placed_ = true;
    try {
      const PlacementOrders orders = core_.place(setup_.spread(candidates()), now());
      for (const std::string& spare : core_.spares()) setup_.observer.assigned(spare, {});
      carry_out(orders);
    } catch (const InputError& error) {
      close(make_failure(Failure::bad_input, error.what()));
    }
  }

  void carry_out(const PlacementOrders& orders) {
    for (const std::string& node : orders.dismiss) {
      const auto known = executors_.find(node);
      if (known == executors_.end() || !known->second.link) continue;
      setup_.observer.left(node);
      send(known->second.link, over_atom::value, "others have the stages of executor " + node + " now", true);
    }
    for (const PlacementOrders::Assign& assign : orders.assign) keep(assign);
    if (orders.pause) close(make_failure(Failure::permanent, *orders.pause));
    arm();
  }

  /// A coordinator that starts again must know of every placement that an executor has heard of.
  void keep(const PlacementOrders::Assign& assign) {
    const auto missing = std::make_shared<std::size_t>(assign.stages.size());
    for (const PlacedStage& placed : assign.stages) {
      const JournalRecord record{JournalRecord::Kind::stage_placed, placed.stage,
                                 WindowIndex{placed.placement.value}, assign.node};
      request(ports_.journal, deadlines.journal, append_atom::value, record)
          .then(
              [this, missing, assign](std::uint64_t) {
                if (--*missing == 0) take_from_earlier(assign);
              },
              [this](caf::error& error) {
                close(make_failure(Failure::permanent, "the journal failed because " + cause_of(error)));
              });
    }
  }

  /// Before the copies of a stage's states are looked at, its earlier executor's link must have written the
  /// last of them: a window that became durable later would let go of what the new placement needs.
  void take_from_earlier(const PlacementOrders::Assign& assign) {
    std::map<caf::actor_addr, std::pair<ExecutorLinkActor, ForgottenStages>> earlier;
    const auto heir = executors_.find(assign.node);
    for (const PlacedStage& placed : assign.stages) {
      const auto link = caf::actor_cast<ExecutorLinkActor>(links_of_stages_[placed.stage]);
      if (!link || (heir != executors_.end() && link == heir->second.link)) continue;
      earlier[link.address()].first = link;
      earlier[link.address()].second.stages.insert(placed.stage);
    }
    if (earlier.empty()) {
      give(assign);
      return;
    }
    const auto missing = std::make_shared<std::size_t>(earlier.size());
    const auto one_less = [this, missing, assign] {
      if (--*missing == 0) give(assign);
    };
    for (const auto& [address, item] : earlier) {
      request(item.first, deadlines.last_copy, forget_atom::value, item.second)
          .then([one_less](bool) { one_less(); },
                [this, one_less](caf::error& error) {
                  if (error == caf::sec::request_timeout) {
                    close(make_failure(Failure::permanent,
                                       "the last copy of a lost executor's state was not "
                                       "written in time"));
                  } else {
                    one_less();  // the link is gone
                  }
                });
    }
  }

  void give(const PlacementOrders::Assign& assign) {
    const auto known = executors_.find(assign.node);
    // It may have been lost while the journal was written.
    if (closing_ || known == executors_.end() || core_.stages_of(assign.node) != assign.stages) return;
    ExecutorAssignment assignment = setup_.assignment(assign.stages, places());
    for (const PlacedStage& placed : assign.stages) {
      assignment.stages.insert(placed.stage);
      if (placed.placement > Placement{1}) assignment.with_kept_states.insert(placed.stage);
    }
    setup_.observer.assigned(assign.node, hosted_by(assign.node));
    for (const PlacedStage& placed : assign.stages) {
      if (placed.placement > Placement{1}) {
        setup_.note("stage " + std::to_string(placed.stage.value) + " goes to executor " + assign.node);
      }
    }
    for (const PlacedStage& placed : assign.stages) {
      links_of_stages_[placed.stage] = known->second.link.address();
    }
    send(known->second.link, assign_atom::value, assignment);
    for (const PlacedStage& placed : assign.stages) announce(placed.stage);
  }

  /// The executors on both sides of a stage hear where it is.
  void announce(StageIndex stage) {
    const StagePlace place = place_of(stage);
    if (place.node.empty()) return;
    if (stage.value == 0) {
      setup_.admit_first(place);
    } else {
      tell(node_of({stage.value - 1}), place.node,
           control::DownstreamMoved{stage, place.node, place.placement});
    }
    if (stage.next().value < setup_.placement.stages) {
      tell(node_of(stage.next()), place.node,
           control::UpstreamMoved{stage.next(), place.node, place.address});
    }
  }

  /// The executor of a stage hears where those on both sides are.
  void tell_of_neighbours(StageIndex stage) {
    if (stage.value > 0) announce({stage.value - 1});
    if (stage.next().value < setup_.placement.stages) announce(stage.next());
  }

  void tell(const std::string& node, const std::string& neighbour, const ControlMessage& message) {
    const auto known = executors_.find(node);
    if (node != neighbour && known != executors_.end() && known->second.link) {
      send(known->second.link, control_atom::value, ReceivedControl{message, {}});
    }
  }

  void inject(StageIndex stage, const std::string& fault) {
    const auto known = executors_.find(node_of(stage));
    const bool there = known != executors_.end() && known->second.link;
    setup_.note("a fault was ordered: " + fault + (there ? "" : "; nobody has that stage at the moment"));
    if (there)
      send(known->second.link, control_atom::value, ReceivedControl{control::FaultOrdered{fault}, {}});
  }

  [[nodiscard]] std::string node_of(StageIndex stage) const { return core_.node_of(stage).value_or(""); }

  /// Without a name if nobody has the stage, or who has it has not said where it can be reached.
  [[nodiscard]] StagePlace place_of(StageIndex stage) const {
    const auto known = executors_.find(node_of(stage));
    if (known == executors_.end() || !known->second.card) return {"", "", core_.placement_of(stage)};
    return {known->first, known->second.card->data_address, core_.placement_of(stage)};
  }

  [[nodiscard]] std::vector<StagePlace> places() const {
    std::vector<StagePlace> all;
    for (std::uint64_t stage = 0; stage < setup_.placement.stages; ++stage) {
      all.push_back(place_of(StageIndex{stage}));
    }
    return all;
  }

  [[nodiscard]] std::vector<StageIndex> hosted_by(const std::string& node) const {
    std::vector<StageIndex> stages;
    for (const PlacedStage& placed : core_.stages_of(node)) stages.push_back(placed.stage);
    return stages;
  }

  void arm() {
    const auto deadline = core_.next_deadline();
    if (!deadline || (armed_for_ && *armed_for_ <= *deadline)) return;
    armed_for_ = deadline;
    delayed_send(this, std::max(*deadline - now(), std::chrono::nanoseconds{0}), tick_atom::value);
  }

  /// All is durable by now: an executor that is lost before it has told its figures leaves them out.
  caf::result<std::vector<StageSummary>> summarise() {
    struct Gathering {
      caf::typed_response_promise<std::vector<StageSummary>> promise;
      std::map<StageIndex, StageSummary> stages;
      std::size_t missing = 1;

      void one_less() {
        if (--missing > 0) return;
        std::vector<StageSummary> all;
        for (const auto& [stage, summary] : stages) all.push_back(summary);
        promise.deliver(std::move(all));
      }
    };
    auto gathering = std::make_shared<Gathering>();
    gathering->promise = make_response_promise<std::vector<StageSummary>>();
    for (std::uint64_t stage = 0; stage < setup_.placement.stages; ++stage) {
      gathering->stages[StageIndex{stage}].stage = StageIndex{stage};
    }
    for (const auto& [node, executor] : executors_) {
      if (core_.stages_of(node).empty()) continue;
      ++gathering->missing;
      request(executor.link, deadlines.remote_summary, summary_atom::value)
          .then(
              [gathering](const std::vector<StageSummary>& stages) {
                for (const StageSummary& summary : stages) gathering->stages[summary.stage] = summary;
                gathering->one_less();
              },
              [this, gathering, name = node](caf::error& error) {
                setup_.note("executor " + name + " did not tell its figures: " + cause_of(error));
                gathering->one_less();
              });
    }
    const auto promise = gathering->promise;
    gathering->one_less();
    return promise;
  }

  // -- the end

  void on_down(const caf::down_msg& down) {
    if (down.source == parent_) {
      quit(caf::exit_reason::user_shutdown);
      return;
    }
    const auto gone = std::find_if(executors_.begin(), executors_.end(), [&down](const auto& item) {
      return item.second.link && item.second.link.address() == down.source;
    });
    if (gone == executors_.end()) return;
    const std::string node = gone->first;
    executors_.erase(gone);
    if (closing_) {
      if (executors_.empty()) quit(*closing_);
      return;
    }
    setup_.observer.left(node);
    if (is_bad_input(down.reason)) {
      close(down.reason);
      return;
    }
    const bool failed = down.reason && !is_orderly(down.reason);
    const std::string cause = failed ? cause_of(down.reason) : "executor " + node + " has left";
    setup_.note("executor " + node + " is gone" + (failed ? ": " + cause : ""));
    carry_out(core_.gone(node, cause, now()));
  }

  /// Executors stop their stages and say goodbye; a link ends in its own time if they do not.
  void close(const caf::error& reason) {
    if (closing_) return;
    closing_ = reason;
    if (executors_.empty()) {
      quit(*closing_);
      return;
    }
    const std::string text = is_orderly(reason) ? "" : cause_of(reason);
    for (const auto& [node, executor] : executors_) send(executor.link, over_atom::value, text, false);
  }

  caf::actor_addr parent_;
  RemoteExecutorsSetup setup_;
  CoordinatorPorts ports_;
  PlacementCore core_;
  FirstPlacement first_placement_;
  std::map<std::string, Executor> executors_;              // by node
  std::map<StageIndex, caf::actor_addr> links_of_stages_;  // that heard last of each stage
  bool placed_ = false;
  std::optional<std::chrono::nanoseconds> armed_for_;
  std::optional<caf::error> closing_;
};

}  // namespace

RemoteExecutorsActor spawn_remote_executors(caf::local_actor& parent, RemoteExecutorsSetup setup,
                                            const CoordinatorPorts& ports) {
  return parent.spawn<RemoteExecutors, caf::monitored>(parent.address(), std::move(setup), ports);
}

}  // namespace zerolock
