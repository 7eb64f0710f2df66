#include "supervision/remote_executors.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Type = RemoteExecutorsActor::extend<caf::reacts_to<joined_atom, std::string, ExecutorCard>,
                                          caf::reacts_to<tick_atom>>;

class RemoteExecutors final : public Type::base {
 public:
  RemoteExecutors(caf::actor_config& config, caf::actor_addr parent, RemoteExecutorsSetup setup,
                  CoordinatorPorts ports)
      : Type::base(config), parent_(parent), setup_(std::move(setup)), ports_(std::move(ports)) {
    contain_failures(this);
    monitor(parent);
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](caf::exit_msg&) { close(caf::exit_reason::user_shutdown); });
  }

  [[nodiscard]] const char* name() const override { return "remote executors"; }

  behavior_type make_behavior() override {
    delayed_send(this, deadlines.stop_poll, tick_atom::value);
    return {[this](tick_atom) { stop_if_requested(); },
            [this](accept_atom, const std::string& node, const AcceptedConnection& accepted) {
              accept(node, accepted);
            },
            [this](lost_atom, const std::string& node, const std::string& cause) {
              const auto known = links_.find(node);
              const bool needed = known == links_.end() ? !assigned_ : known->second.has_stages;
              if (needed) close(make_failure(Failure::permanent, cause));
            },
            [this](joined_atom, const std::string& node, const ExecutorCard& card) { joined(node, card); },
            [this](summary_atom) { return summarise(); }};
  }

  void on_exit() override {
    links_.clear();
    setup_ = {};
    ports_ = {};
  }

 private:
  struct Executor {
    ExecutorLinkActor link;
    std::optional<ExecutorCard> card;  // once it is a member
    bool has_stages = false;
  };

  void accept(const std::string& node, const AcceptedConnection& accepted) {
    if (closing_) {
      accepted.connection->close("the run has ended");
      return;
    }
    Executor& executor = links_[node];
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

  void joined(const std::string& node, const ExecutorCard& card) {
    const auto known = links_.find(node);
    if (known == links_.end()) return;
    known->second.card = card;
    setup_.observer.joined(card);
    if (assigned_) setup_.observer.assigned(node, {});
    const auto members = std::count_if(links_.begin(), links_.end(),
                                       [](const auto& item) { return item.second.card.has_value(); });
    setup_.note("executor " + node + " has joined (" + std::to_string(members) + " of " +
                std::to_string(setup_.executors_wanted) + ")" + (assigned_ ? ", stands by as a spare" : ""));
    if (!assigned_ && static_cast<std::uint64_t>(members) >= setup_.executors_wanted) assign();
  }

  void stop_if_requested() {
    if (assigned_ || closing_) return;
    if (setup_.stop_requested && setup_.stop_requested()) {
      close(make_failure(Failure::permanent, "it was stopped before its executors had joined"));
    } else {
      delayed_send(this, deadlines.stop_poll, tick_atom::value);
    }
  }

  /// Executors in the order of their names, so that the same ones always get the same stages.
  void assign() {
    assigned_ = true;
    std::vector<ExecutorCard> cards;
    std::vector<Executor*> members;
    for (auto& [node, executor] : links_) {
      if (!executor.card) continue;
      cards.push_back(*executor.card);
      members.push_back(&executor);
    }
    try {
      const std::vector<ExecutorAssignment> assignments = setup_.assign(cards);
      for (std::size_t i = 0; i < members.size() && i < assignments.size(); ++i) {
        const std::set<StageIndex>& stages = assignments[i].stages;
        setup_.observer.assigned(cards[i].name, {stages.begin(), stages.end()});
        if (stages.empty()) continue;
        members[i]->has_stages = true;
        send(members[i]->link, assign_atom::value, assignments[i]);
      }
    } catch (const InputError& error) {
      close(make_failure(Failure::bad_input, error.what()));
    }
  }

  caf::result<std::vector<StageSummary>> summarise() {
    auto promise = make_response_promise<std::vector<StageSummary>>();
    auto gathered = std::make_shared<std::vector<StageSummary>>();
    auto missing = std::make_shared<std::size_t>(0);
    for (const auto& [node, executor] : links_) *missing += executor.has_stages ? 1 : 0;
    for (const auto& [node, executor] : links_) {
      if (!executor.has_stages) continue;
      request(executor.link, deadlines.remote_summary, summary_atom::value)
          .then(
              [promise, gathered, missing](const std::vector<StageSummary>& stages) mutable {
                gathered->insert(gathered->end(), stages.begin(), stages.end());
                if (--*missing == 0) promise.deliver(*gathered);
              },
              [promise](caf::error& error) mutable {
                if (promise.pending()) promise.deliver(error);
              });
    }
    return promise;
  }

  void on_down(const caf::down_msg& down) {
    if (down.source == parent_) {
      quit(caf::exit_reason::user_shutdown);
      return;
    }
    const auto gone = std::find_if(links_.begin(), links_.end(), [&down](const auto& item) {
      return item.second.link && item.second.link.address() == down.source;
    });
    if (gone == links_.end()) return;
    const std::string node = gone->first;
    const bool has_stages = gone->second.has_stages;
    links_.erase(gone);
    if (closing_) {
      if (links_.empty()) quit(*closing_);
      return;
    }
    setup_.observer.left(node);
    if (is_bad_input(down.reason)) {
      close(down.reason);
    } else if (has_stages) {
      close(make_failure(Failure::permanent, cause_of(down.reason)));
    } else {
      setup_.note("executor " + node + " is gone" +
                  (is_orderly(down.reason) || !down.reason ? "" : ": " + cause_of(down.reason)));
    }
  }

  /// Executors stop their stages and say goodbye; a link ends in its own time if they do not.
  void close(const caf::error& reason) {
    if (closing_) return;
    closing_ = reason;
    if (links_.empty()) {
      quit(*closing_);
      return;
    }
    const std::string text = is_orderly(reason) ? "" : cause_of(reason);
    for (const auto& [node, executor] : links_) send(executor.link, over_atom::value, text);
  }

  caf::actor_addr parent_;
  RemoteExecutorsSetup setup_;
  CoordinatorPorts ports_;
  std::map<std::string, Executor> links_;  // by node
  bool assigned_ = false;
  std::optional<caf::error> closing_;
};

}  // namespace

RemoteExecutorsActor spawn_remote_executors(caf::local_actor& parent, RemoteExecutorsSetup setup,
                                            const CoordinatorPorts& ports) {
  return parent.spawn<RemoteExecutors, caf::monitored>(parent.address(), std::move(setup), ports);
}

}  // namespace zerolock
