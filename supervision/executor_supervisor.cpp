#include "supervision/executor_supervisor.hpp"

#include <optional>

#include "actors/agent.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "supervision/children.hpp"

namespace zerolock {
namespace {

constexpr std::size_t agent_child = 0;  // stage k is child k + 1

class ExecutorSupervisor final : public ExecutorSupervisorActor::base {
 public:
  ExecutorSupervisor(caf::actor_config& config, caf::actor_addr parent, ExecutorSetup setup)
      : ExecutorSupervisorActor::base(config),
        parent_(parent),
        setup_(std::move(setup)),
        children_(setup_.stages.size() + 1),
        stages_(setup_.stages.size()),
        boundaries_(setup_.stages.size()) {
    contain_failures(this);
    monitor(parent);
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](caf::exit_msg&) { close(caf::exit_reason::user_shutdown); });
  }

  [[nodiscard]] const char* name() const override { return "executor supervisor"; }

  behavior_type make_behavior() override {
    start_children();
    return {[this](ports_atom, StageIndex stage, const HiddenStateBufferActor& inbound,
                   const UpstreamActor& outbound) { on_ports(stage, inbound, outbound); },
            [this](summary_atom) { return summarise(); }};
  }

  void on_exit() override {
    children_.clear();
    stages_.clear();
    boundaries_.clear();
    setup_ = {};
  }

 private:
  /// The two ends of the way into a stage.
  struct Boundary {
    UpstreamActor upstream;
    HiddenStateBufferActor downstream;
    std::uint64_t session = 0;
  };

  void start_children() {
    children_.started(agent_child,
                      caf::actor_cast<caf::actor>(spawn_agent(*this, setup_.card, setup_.membership)));
    boundaries_.front().upstream = setup_.source;
    for (std::size_t k = 0; k < setup_.stages.size(); ++k) {
      StageSupervisorSetup& stage = setup_.stages[k];
      stage.executor = caf::actor_cast<ExecutorSupervisorActor>(this);
      stages_[k] = spawn_stage_supervisor(*this, setup_.commons, stage);
      children_.started(k + 1, caf::actor_cast<caf::actor>(stages_[k]));
    }
  }

  /// A stage has new buffers: both its boundaries are joined anew.
  void on_ports(StageIndex stage, const HiddenStateBufferActor& inbound, const UpstreamActor& outbound) {
    boundaries_.at(stage.value).downstream = inbound;
    join(boundaries_.at(stage.value));
    if (stage.value + 1 == boundaries_.size()) return;
    boundaries_.at(stage.value + 1).upstream = outbound;
    join(boundaries_.at(stage.value + 1));
  }

  void join(Boundary& boundary) {
    if (boundary.upstream && boundary.downstream) {
      send(boundary.downstream, connect_atom::value, ++boundary.session, boundary.upstream);
    }
  }

  void on_down(const caf::down_msg& down) {
    if (down.source == parent_) {
      quit(caf::exit_reason::user_shutdown);
      return;
    }
    const auto child = children_.find(down.source);
    if (!child) return;
    const bool expected = children_.down(*child);
    if (!expected && !closing_) {
      failed(*child, down.reason);
    } else {
      continue_stop();
    }
  }

  /// A stage has used up its own restarts, so there is none here: the failure climbs.
  void failed(std::size_t child, const caf::error& reason) {
    if (is_bad_input(reason)) {
      close(reason);
      return;
    }
    const std::string who = "executor " + setup_.card.name + " failed because ";
    const std::string what = child == agent_child   ? "its agent failed because " + cause_of(reason)
                             : is_permanent(reason) ? cause_of(reason)
                                                    : "the supervisor of stage " + std::to_string(child - 1) +
                                                          " failed because " + cause_of(reason);
    close(make_failure(Failure::permanent, who + what));
  }

  void close(const caf::error& reason) {
    if (closing_) return;
    closing_ = reason;
    children_.stop_from(agent_child);
    continue_stop();
  }

  void continue_stop() {
    if (children_.continue_stop(this)) quit(*closing_);
  }

  caf::result<std::vector<StageSummary>> summarise() {
    auto promise = make_response_promise<std::vector<StageSummary>>();
    auto gathered = std::make_shared<std::vector<StageSummary>>();
    for (const StageSupervisorActor& stage : stages_) {
      request(stage, deadlines.stage_summary, summary_atom::value)
          .then(
              [this, promise, gathered](const StageSummary& summary) mutable {
                gathered->push_back(summary);
                if (gathered->size() == stages_.size()) promise.deliver(*gathered);
              },
              [promise](caf::error& error) mutable {
                if (promise.pending()) promise.deliver(error);
              });
    }
    return promise;
  }

  caf::actor_addr parent_;
  ExecutorSetup setup_;
  Children children_;
  std::vector<StageSupervisorActor> stages_;
  std::vector<Boundary> boundaries_;  // boundary k leads into stage k
  std::optional<caf::error> closing_;
};

}  // namespace

ExecutorSupervisorActor spawn_executor_supervisor(caf::local_actor& parent, ExecutorSetup setup) {
  return parent.spawn<ExecutorSupervisor, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
