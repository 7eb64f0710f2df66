#include "supervision/executor_supervisor.hpp"

#include <map>
#include <optional>

#include "actors/agent.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "supervision/children.hpp"

namespace zerolock {
namespace {

class ExecutorSupervisor final : public ExecutorSupervisorActor::base {
 public:
  ExecutorSupervisor(caf::actor_config& config, caf::actor_addr parent, ExecutorSetup setup)
      : ExecutorSupervisorActor::base(config),
        parent_(parent),
        setup_(std::move(setup)),
        children_(first_stage_child() + setup_.stages.size()) {
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
  /// The two ends of the way into a stage, both in this process, or the link that joins a downstream here to
  /// an upstream elsewhere.
  struct Boundary {
    UpstreamActor upstream;
    HiddenStateBufferActor downstream;
    std::uint64_t session = 0;
    InboundLinkActor link;
    ImitatedLinkActor imitation;  // between two ends in this process, for experiments
  };

  // The agent, a link for each stage, whether it needs one or not, the stages.
  static constexpr std::size_t agent_child = 0;
  [[nodiscard]] std::size_t first_link_child() const { return agent_child + 1; }
  [[nodiscard]] std::size_t first_stage_child() const { return first_link_child() + setup_.stages.size(); }

  void start_children() {
    if (setup_.membership) {
      children_.started(agent_child,
                        caf::actor_cast<caf::actor>(spawn_agent(*this, setup_.card, setup_.membership)));
    }
    for (std::size_t i = 0; i < setup_.stages.size(); ++i) {
      const StageIndex stage = setup_.stages[i].stage;
      Boundary& boundary = boundaries_[stage];
      if (stage.value == 0 && setup_.source) {
        boundary.upstream = setup_.source;
      } else if (!hosts_before(stage)) {
        boundary.link = setup_.links.dial(*this, stage);
        children_.started(first_link_child() + i, caf::actor_cast<caf::actor>(boundary.link));
      } else if (setup_.imitate) {
        boundary.imitation = setup_.imitate(*this, stage);
        children_.started(first_link_child() + i, caf::actor_cast<caf::actor>(boundary.imitation));
      }
    }
    for (std::size_t i = 0; i < setup_.stages.size(); ++i) {
      StageSupervisorSetup& stage = setup_.stages[i];
      stage.executor = caf::actor_cast<ExecutorSupervisorActor>(this);
      stages_.push_back(spawn_stage_supervisor(*this, setup_.commons, stage));
      children_.started(first_stage_child() + i, caf::actor_cast<caf::actor>(stages_.back()));
    }
  }

  [[nodiscard]] bool hosts_before(StageIndex stage) const {
    return stage.value > 0 && boundaries_.contains(StageIndex{stage.value - 1});
  }

  /// A stage has new buffers: both its boundaries are joined anew.
  void on_ports(StageIndex stage, const HiddenStateBufferActor& inbound, const UpstreamActor& outbound) {
    Boundary& in = boundaries_.at(stage);
    in.downstream = inbound;
    join(in);
    if (!outbound) return;
    const auto out = boundaries_.find(stage.next());
    if (out == boundaries_.end()) {
      send(setup_.links.door, ports_atom::value, stage.next(), outbound);
    } else {
      out->second.upstream = outbound;
      join(out->second);
    }
  }

  void join(Boundary& boundary) {
    if (!boundary.downstream) return;
    if (boundary.link) {
      send(boundary.link, connect_atom::value, boundary.downstream);
    } else if (boundary.upstream) {
      UpstreamActor upstream = boundary.upstream;
      if (boundary.imitation) {
        send(boundary.imitation, connect_atom::value, upstream);
        upstream = boundary.imitation;
      }
      send(boundary.downstream, connect_atom::value, ++boundary.session, upstream);
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
    close(make_failure(Failure::permanent, who + what_failed(child, reason)));
  }

  [[nodiscard]] std::string what_failed(std::size_t child, const caf::error& reason) const {
    const std::string cause = cause_of(reason);
    const auto stage_of = [this](std::size_t index) {
      return std::to_string(setup_.stages.at(index).stage.value);
    };
    if (child == agent_child) return "its agent failed because " + cause;
    if (is_permanent(reason)) return cause;
    if (child >= first_stage_child()) {
      return "the supervisor of stage " + stage_of(child - first_stage_child()) + " failed because " + cause;
    }
    return "the link into stage " + stage_of(child - first_link_child()) + " failed because " + cause;
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
    const std::uint64_t process_bytes = setup_.process_bytes_peak ? setup_.process_bytes_peak() : 0;
    for (const StageSupervisorActor& stage : stages_) {
      request(stage, deadlines.stage_summary, summary_atom::value)
          .then(
              [this, promise, gathered, process_bytes](const StageSummary& summary) mutable {
                gathered->push_back(summary);
                gathered->back().process_bytes_peak = process_bytes;
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
  std::map<StageIndex, Boundary> boundaries_;  // by the stage they lead into
  std::optional<caf::error> closing_;
};

}  // namespace

ExecutorSupervisorActor spawn_executor_supervisor(caf::local_actor& parent, ExecutorSetup setup) {
  return parent.spawn<ExecutorSupervisor, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
