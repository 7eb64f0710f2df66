#include "actors/remote/coordinator_link.hpp"

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/checkpoint_files.hpp"
#include "actors/core/reconnect_policy.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/remote/calibration_payload.hpp"
#include "actors/remote/connection_events.hpp"

namespace zerolock {
namespace {

using welcome_atom = caf::atom_constant<caf::atom("welcome")>;  // to itself: has it come?

using Type =
    CoordinatorLinkActor::extend<caf::reacts_to<tick_atom>, caf::reacts_to<welcome_atom, std::uint64_t>,
                                 caf::reacts_to<frame_atom, std::uint64_t, ReceivedFrame>,
                                 caf::reacts_to<closed_atom, std::uint64_t, std::string>,
                                 caf::reacts_to<dialled_atom, std::uint64_t, DialOutcome>>;

class CoordinatorLink final : public Type::base {
 public:
  CoordinatorLink(caf::actor_config& config, caf::actor_addr parent, CoordinatorLinkSetup setup)
      : Type::base(config), setup_(std::move(setup)) {
    contain_failures(this);
    live_under(this, parent);
    const auto given = setup_.dial.connection;
    setup_.dial.connection = control_options(setup_.payload_bytes_max);
    setup_.dial.connection.silence_limit = given.silence_limit;
    setup_.dial.connection.link = given.link;
  }

  [[nodiscard]] const char* name() const override { return "coordinator link"; }

  behavior_type make_behavior() override {
    dial();
    return {[](start_atom) {},
            [this](attach_atom, StageIndex stage, const StageControlActor& control) {
              stages_[stage] = control;
              news_.try_emplace(stage);
              say(control::StageAttached{stage});
              // The coordinator tells what holds for a new stage; it may know this one from before.
              if (line_) send(control, line_atom::value, *line_);
              if (end_at_) send(control, end_at_atom::value, *end_at_);
            },
            [this](commit_atom, StageIndex stage, Incarnation incarnation, WindowIndex window) {
              news_[stage].committed = control::WindowCommitted{stage, incarnation, window};
              say(control::WindowCommitted{stage, incarnation, window});
            },
            [this](durable_atom, StageIndex stage, WindowIndex window) { say_durable(stage, window); },
            [](stop_atom) {},
            [this](report_atom, const WindowReport& report) {
              news_[report.stage].reported(report);
              say(control::WindowReported{report});
            },
            [this](calibrated_atom, StageIndex stage) {
              news_[stage].calibrated = true;
              say(control::StageCalibrated{stage});
            },
            [this](spans_atom, const std::vector<TraceSpan>& spans) { say(control::SpansRecorded{spans}); },
            [this](restart_atom, const StageRestart& restart) { say(control::StageRestarted{restart}); },
            [this](targets_atom, const CalibrationTargets& targets) {
              targets_made_ = {shape_of<control::TargetsMade>(targets), payload_of_targets(targets)};
              channel_.send(targets_made_->message, targets_made_->payload);
            },
            [this](attach_atom, StageIndex stage, Incarnation life, const TargetsReceiverActor& worker) {
              waiting_[stage] = {life, worker};
              say(control::TargetsWanted{stage, life});
            },
            [](line_atom, WindowIndex) {},
            [this](running_atom, const std::string& session, const std::vector<PlacedStage>& running) {
              session_ = session;
              running_ = running;
            },
            [this](control_atom, const ReceivedControl& said) {
              if (const auto* seen = std::get_if<control::QueuesSeen>(&said.message)) {
                say_queues(*seen);
                return;
              }
              channel_.send(said.message, said.payload);
              if (std::holds_alternative<control::ExecutorLeft>(said.message)) leave();
            },
            [this](tick_atom) {
              if (leaving_) {
                quit(caf::exit_reason::normal);
              } else if (!connection_) {
                dial();
              }
            },
            [this](welcome_atom, std::uint64_t number) {
              if (number == number_ && connection_ && !channel_.is_open()) {
                connection_->close("the coordinator did not answer in time");
              }
            },
            [this](frame_atom, std::uint64_t number, const ReceivedFrame& received) {
              if (number == number_ && connection_) on_frame(*received.frame);
            },
            [this](closed_atom, std::uint64_t number, const std::string& cause) {
              if (number == number_) on_closed(cause);
            },
            [this](dialled_atom, std::uint64_t number, const DialOutcome& outcome) {
              if (number == number_) on_dialled(*outcome.result);
            }};
  }

  void on_exit() override {
    if (connection_) connection_->close("the executor has ended");
    channel_.lost();
    connection_ = nullptr;
    stages_.clear();
    waiting_.clear();
    setup_ = {};
  }

 private:
  // -- to the coordinator

  void say(const ControlMessage& message) { channel_.send(message); }

  /// Of what changes all the time only the latest counts: while nobody listens, the rest is not kept for
  /// them.
  void say_queues(const control::QueuesSeen& seen) {
    news_[seen.queues.stage].queues = seen;
    if (channel_.is_open()) say(seen);
  }

  /// The coordinator keeps a copy of each durable state; one that it has is only named again.
  void say_durable(StageIndex stage, WindowIndex window) {
    StageNews& news = news_[stage];
    at::Tensor state;
    if (news.copied < WindowsDone{window}) {
      state = bytes_of(read_checkpoint_bytes(setup_.checkpoints, stage, window));
      news.copied = window;
      if (setup_.watch) {
        setup_.watch({TrafficItem::Kind::state_copied, stage, {window, 0}, state.nbytes(), 0});
      }
    }
    news.durable = std::max(news.durable, WindowsDone{window});
    channel_.send(control::WindowDurable{stage, window}, state);
  }

  /// To a coordinator that has started again: where the stages are, with all that it may not have kept. What
  /// it knows already changes nothing there.
  void say_all_again(const std::vector<ReceivedControl>& unheard) {
    for (auto& [stage, news] : news_) {
      news.copied.reset();
      say(control::StageAttached{stage});
      if (news.durable) say_durable(stage, *news.durable);
      if (news.committed) say(*news.committed);
      for (const WindowReport& report : news.reports) say(control::WindowReported{report});
      if (news.calibrated) say(control::StageCalibrated{stage});
    }
    if (targets_made_) channel_.send(targets_made_->message, targets_made_->payload);
    for (const auto& [stage, waiting] : waiting_) say(control::TargetsWanted{stage, waiting.life});
    for (const ReceivedControl& said : unheard) {
      const bool once = std::holds_alternative<control::SpansRecorded>(said.message) ||
                        std::holds_alternative<control::StageRestarted>(said.message) ||
                        std::holds_alternative<control::SummaryGiven>(said.message) ||
                        std::holds_alternative<control::ExecutorFailed>(said.message) ||
                        std::holds_alternative<control::ExecutorLeft>(said.message);
      if (once) channel_.send(said.message, said.payload);
    }
  }

  // -- the connection

  void dial() { dial_for(*setup_.network, setup_.dial, caf::actor_cast<DiallerActor>(this), ++number_); }

  void on_dialled(const DialResult& result) {
    if (const auto* failure = std::get_if<DialFailure>(&result)) {
      const bool hopeless =
          failure->kind == DialFailure::Kind::security || failure->kind == DialFailure::Kind::refused;
      if (hopeless) {
        quit(make_failure(Failure::permanent, failure->reason));
      } else {
        try_again(failure->reason);
      }
      return;
    }
    connection_ = std::get<Dialled>(result).connection;
    start_for(*connection_, caf::actor_cast<ConnectionOwnerActor>(this), number_,
              setup_.payload_bytes_max + control_bytes_max);
    connection_->send(channel_.opening({setup_.card, 0, 0, session_, running_}));
    delayed_send(this, deadlines.welcome, welcome_atom::value, std::uint64_t{number_});
  }

  void on_frame(const Frame& frame) {
    try {
      if (!channel_.is_open() && frame.type == FrameType::request) {
        on_welcome(decode_welcome(frame.metadata));
        return;
      }
      if (auto received = channel_.received(frame)) act(std::move(*received));
      if (leaving_ && channel_.settled()) quit(caf::exit_reason::normal);
    } catch (const WireError& error) {
      connection_->close(error.what());
    }
  }

  /// The conversation goes on where it was broken off, or begins anew.
  void on_welcome(const ControlWelcome& welcome) {
    if (welcome.conversation == channel_.conversation()) {
      if (!channel_.open(connection_, welcome.lacking)) {
        throw WireError("the coordinator lacks what was never said");
      }
    } else {
      const bool first = channel_.conversation() == 0;
      const std::vector<ReceivedControl> unheard = channel_.begin(welcome.conversation);
      if (!channel_.open(connection_, 0)) throw WireError("a new conversation begins with its beginning");
      if (!first) say_all_again(unheard);
    }
    for (const auto& [stage, news] : news_) {
      if (news.queues) say(*news.queues);
    }
    setup_.note(std::string(joined_ ? "joined again: " : "joined: ") + connection_->peer_text());
    joined_ = true;
    told_ = false;
    policy_.succeeded();
    lost_since_.reset();
  }

  void on_closed(const std::string& cause) {
    channel_.lost();
    connection_ = nullptr;
    if (leaving_) {
      quit(caf::exit_reason::normal);
    } else {
      try_again(cause);
    }
  }

  /// Ends when the goodbye has arrived, or will not.
  void leave() {
    leaving_ = true;
    if (!channel_.is_open()) {
      quit(caf::exit_reason::normal);
    } else {
      delayed_send(this, deadlines.executor_farewell, tick_atom::value);
    }
  }

  void try_again(const std::string& cause) {
    if (!lost_since_) lost_since_ = clock().now();
    if (joined_ && clock().now() - *lost_since_ > deadlines.coordinator_absence) {
      quit(make_failure(Failure::permanent, "the coordinator could not be reached for " +
                                                std::to_string(deadlines.coordinator_absence.count() / 1000) +
                                                " s: " + cause));
      return;
    }
    if (!told_) setup_.note("not connected to the coordinator: " + cause + "; trying again");
    told_ = true;
    delayed_send(this, policy_.failed(), tick_atom::value);
  }

  // -- from the coordinator

  void act(ReceivedControl received) {
    if (const auto* moved = std::get_if<control::LineMoved>(&received.message)) {
      line_ = std::max(line_, WindowsDone{moved->line});
      for (const auto& [stage, control] : stages_) send(control, line_atom::value, *line_);
    } else if (const auto* ends = std::get_if<control::RunEndsAt>(&received.message)) {
      end_at_ = ends->window;
      for (const auto& [stage, control] : stages_) send(control, end_at_atom::value, ends->window);
    } else if (const auto* given = std::get_if<control::TargetsGiven>(&received.message)) {
      const CalibrationTargets targets = targets_from(*given, received.payload);
      for (const auto& [stage, waiting] : waiting_) send(waiting.worker, targets_atom::value, targets);
      waiting_.clear();
    } else {
      send(setup_.owner, control_atom::value, received);
    }
  }

  CoordinatorLinkSetup setup_;
  ControlChannel channel_;
  std::shared_ptr<Connection> connection_;
  std::uint64_t number_ = 0;  // of the connection, or of the attempt at one
  ReconnectPolicy policy_{deadlines.redial_first, deadlines.redial_longest};
  std::optional<caf::actor_clock::time_point> lost_since_;
  bool joined_ = false;
  bool told_ = false;
  bool leaving_ = false;
  std::map<StageIndex, StageControlActor> stages_;
  /// What a coordinator has to know of a stage that has attached.
  struct StageNews {
    bool calibrated = false;
    std::optional<control::WindowCommitted> committed;
    WindowsDone durable;
    WindowsDone copied;  // the latest whose state the coordinator has been sent
    std::optional<control::QueuesSeen> queues;
    std::deque<WindowReport> reports;  // the latest, oldest first

    void reported(const WindowReport& report) {
      reports.push_back(report);
      if (reports.size() > reports_max) reports.pop_front();
    }
    /// More than a coordinator can have heard of without having written it down.
    static constexpr std::size_t reports_max = 64;
  };
  struct WaitingLife {
    Incarnation life;
    TargetsReceiverActor worker;
  };

  std::string session_;
  std::vector<PlacedStage> running_;
  std::map<StageIndex, StageNews> news_;
  std::optional<ReceivedControl> targets_made_;
  std::map<StageIndex, WaitingLife> waiting_;  // for the targets
  WindowsDone line_;
  std::optional<WindowIndex> end_at_;
};

}  // namespace

CoordinatorLinkActor spawn_coordinator_link(caf::local_actor& parent, CoordinatorLinkSetup setup) {
  return parent.spawn<CoordinatorLink, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
