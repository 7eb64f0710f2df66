#include "actors/remote/executor_link.hpp"

#include <optional>
#include <utility>

#include "actors/checkpoint_files.hpp"
#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "actors/remote/calibration_payload.hpp"
#include "actors/remote/connection_events.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Type = ExecutorLinkActor::extend<caf::reacts_to<tick_atom>,
                                       caf::reacts_to<frame_atom, std::uint64_t, ReceivedFrame>,
                                       caf::reacts_to<closed_atom, std::uint64_t, std::string>>;

class ExecutorLink final : public Type::base {
 public:
  ExecutorLink(caf::actor_config& config, caf::actor_addr parent, ExecutorLinkSetup setup)
      : Type::base(config), setup_(std::move(setup)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "executor link"; }

  behavior_type make_behavior() override {
    return {[this](line_atom, WindowIndex line) {  // the scheduler says it once for each stage
              if (line_ >= WindowsDone{line}) return;
              line_ = line;
              channel_.send(control::LineMoved{line});
              for (const StageIndex stage : stages_) retire_checkpoints(setup_.checkpoints, stage, line);
            },
            [this](end_at_atom, WindowIndex window) {
              if (end_at_ == window) return;
              end_at_ = window;
              channel_.send(control::RunEndsAt{window});
            },
            [this](targets_atom, const CalibrationTargets& targets) {
              if (std::exchange(targets_given_, true)) return;
              channel_.send(shape_of<control::TargetsGiven>(targets), payload_of_targets(targets));
            },
            [this](accept_atom, const AcceptedConnection& accepted) { accept(accepted.connection); },
            [this](assign_atom, const ExecutorAssignment& assignment) { assign(assignment); },
            [this](control_atom, const ReceivedControl& said) { channel_.send(said.message, said.payload); },
            [this](summary_atom) {
              channel_.send(control::SummaryWanted{});
              summaries_ = make_response_promise<std::vector<StageSummary>>();
              return *summaries_;
            },
            [this](forget_atom, const ForgottenStages& forgotten) {
              for (const StageIndex stage : forgotten.stages) stages_.erase(stage);
              return true;
            },
            [this](over_atom, const std::string& reason, bool rejoin) { end_life(reason, rejoin); },
            [this](tick_atom) {
              if (over_ && clock().now() >= over_since_ + deadlines.executor_farewell) {
                quit(caf::exit_reason::normal);
              }
            },
            [this](frame_atom, std::uint64_t number, const ReceivedFrame& received) {
              if (number == number_ && connection_) on_frame(*received.frame);
            },
            [this](closed_atom, std::uint64_t number, const std::string& cause) {
              if (number == number_) on_closed(cause);
            }};
  }

  void on_exit() override {
    if (connection_) connection_->close("the run has ended");
    channel_.lost();
    connection_ = nullptr;
    leave_membership();
    setup_ = {};
  }

 private:
  // -- connections

  /// The executor dials again when it believes the connection to be gone, so the newest one counts.
  void accept(const std::shared_ptr<Connection>& connection) {
    if (connection_) connection_->close("the executor has connected again");
    channel_.lost();
    connection_ = connection;
    start_for(*connection_, caf::actor_cast<ConnectionOwnerActor>(this), ++number_,
              setup_.payload_bytes_max + control_bytes_max);
  }

  void on_frame(const Frame& frame) {
    try {
      if (frame.type == FrameType::request) {
        on_opening(decode_opening(frame.metadata));
      } else if (!channel_.is_open()) {
        throw WireError("the first words of a control connection must be its opening");
      } else if (auto received = channel_.received(frame)) {
        // What an executor says that has been dismissed no longer counts.
        if (!dismissed_ || std::holds_alternative<control::ExecutorLeft>(received->message)) act(*received);
      }
    } catch (const WireError& error) {
      if (connection_) connection_->close(error.what());
    }
  }

  void on_opening(const ControlOpening& opening) {
    const bool same_life = card_ && opening.card.placement == card_->placement;
    if (!same_life || opening.conversation != channel_.conversation()) {
      begin_life(opening);
      return;
    }
    welcome(opening.lacking);
    if (lost_) setup_.observer.back(setup_.name);
    lost_ = false;
    send(setup_.owner, back_atom::value, setup_.name);
  }

  void welcome(std::uint64_t lacking) {
    if (!connection_->send(channel_.welcome()) || !channel_.open(connection_, lacking)) {
      connection_->close("the two sides do not belong to the same conversation");
    }
  }

  /// Another life of the executor, or one that another life of the coordinator spoke with. Nothing is taken
  /// from it before the owner has said what of it counts.
  void begin_life(const ControlOpening& opening) {
    leave_membership();
    channel_.begin(new_conversation());
    stages_.clear();
    line_.reset();
    end_at_.reset();
    targets_given_ = false;
    summaries_.reset();
    over_ = false;
    dismissed_ = false;
    lost_ = false;
    card_ = opening.card;
    card_->name = setup_.name;
    request(setup_.membership, deadlines.join, join_member_atom::value, *card_)
        .then(
            [this, opening, number = number_](const std::string& refusal) {
              if (number != number_ || !connection_) return;
              if (refusal.empty()) {
                ask_owner(opening);
              } else {
                welcome(0);
                end_life(refusal, false);
              }
            },
            [this](caf::error& error) {
              quit(make_failure(Failure::permanent, "membership did not answer because " + cause_of(error)));
            });
  }

  void ask_owner(const ControlOpening& opening) {
    request(setup_.owner, deadlines.join, opened_atom::value, setup_.name,
            OpenedExecutor{*card_, opening.session, opening.running})
        .then(
            [this, opening, number = number_](const OpenedAnswer& answer) {
              if (number != number_ || !connection_) return;
              if (answer.refusal.empty()) {
                for (const PlacedStage& placed : opening.running) stages_.insert(placed.stage);
              }
              welcome(0);
              if (!answer.refusal.empty()) end_life(answer.refusal, answer.rejoin);
            },
            [this](caf::error& error) {
              quit(make_failure(Failure::permanent,
                                "the executors' owner did not answer because " + cause_of(error)));
            });
  }

  void leave_membership() {
    if (card_) send(setup_.membership, leave_atom::value, card_->name, card_->placement);
    card_.reset();
  }

  void on_closed(const std::string& cause) {
    channel_.lost();
    connection_ = nullptr;
    if (over_ || stages_.empty()) {
      quit(caf::exit_reason::normal);  // nothing of the run is there
      return;
    }
    lost_ = true;
    setup_.observer.lost(setup_.name);
    setup_.note("executor " + setup_.name + ": " + cause + "; waiting for it");
    send(setup_.owner, away_atom::value, setup_.name, cause);
  }

  // -- what is said

  void assign(const ExecutorAssignment& assignment) {
    stages_ = assignment.stages;
    for (const auto& [stage, bytes] : assignment.initial_states) {
      channel_.send(control::InitialState{stage, assignment.initial_window}, bytes_of(bytes));
    }
    for (const StageIndex stage : assignment.with_kept_states) send_kept_states(stage);
    channel_.send(control::Assigned{assignment.text});
  }

  /// All that a restart may go back to. A bad one is passed over: an older one does as well.
  void send_kept_states(StageIndex stage) {
    for (const WindowIndex window : checkpoint_windows(setup_.checkpoints, stage)) {
      try {
        channel_.send(control::KeptState{stage, window},
                      bytes_of(read_checkpoint_bytes(setup_.checkpoints, stage, window)));
      } catch (const InputError& error) {
        setup_.note(std::string("passed over a bad checkpoint: ") + error.what());
      }
    }
  }

  void end_life(const std::string& reason, bool rejoin) {
    if (std::exchange(over_, true)) return;
    dismissed_ = !reason.empty();
    if (!channel_.is_open()) {
      quit(caf::exit_reason::normal);
      return;
    }
    channel_.send(control::RunOver{reason, rejoin});
    over_since_ = clock().now();
    delayed_send(this, deadlines.executor_farewell, tick_atom::value);
  }

  void act(const ReceivedControl& received) {
    std::visit([this, &received](const auto& message) { on(message, received.payload); }, received.message);
  }

  void on(const control::StageAttached& message, const at::Tensor&) {
    check_hosted(message.stage);
    send(setup_.scheduler, attach_atom::value, message.stage,
         StageControlActor{caf::actor_cast<StageControlActor>(this)});
  }
  void on(const control::WindowCommitted& message, const at::Tensor&) {
    check_hosted(message.stage);
    send(setup_.scheduler, commit_atom::value, message.stage, message.incarnation, message.window);
  }
  /// Durable for the run is what the coordinator holds too.
  void on(const control::WindowDurable& message, const at::Tensor& state) {
    check_hosted(message.stage);
    if (state.numel() > 0) {
      write_checkpoint_bytes(setup_.checkpoints, message.stage, message.window, text_of(state));
    }
    setup_.observer.durable(message.stage, message.window);
    send(setup_.scheduler, durable_atom::value, message.stage, message.window);
  }
  void on(const control::WindowReported& message, const at::Tensor&) {
    check_hosted(message.report.stage);
    send(setup_.recorder, report_atom::value, message.report);
  }
  void on(const control::StageCalibrated& message, const at::Tensor&) {
    check_hosted(message.stage);
    send(setup_.recorder, calibrated_atom::value, message.stage);
  }
  void on(const control::SpansRecorded& message, const at::Tensor&) {
    for (const TraceSpan& span : message.spans) check_hosted(span.stage);
    send(setup_.recorder, spans_atom::value, message.spans);
  }
  void on(const control::StageRestarted& message, const at::Tensor&) {
    check_hosted(message.restart.stage);
    send(setup_.recorder, restart_atom::value, message.restart);
  }
  void on(const control::QueuesSeen& message, const at::Tensor&) {
    check_hosted(message.queues.stage);
    setup_.observer.queues(message.queues);
  }
  void on(const control::TargetsMade& message, const at::Tensor& bytes) {
    send(setup_.targets, targets_atom::value, targets_from(message, bytes));
  }
  /// Every life that asks is answered anew.
  void on(const control::TargetsWanted& message, const at::Tensor&) {
    check_hosted(message.stage);
    targets_given_ = false;
    send(setup_.targets, attach_atom::value, message.stage, message.incarnation,
         TargetsReceiverActor{caf::actor_cast<TargetsReceiverActor>(this)});
  }
  void on(const control::SummaryGiven& message, const at::Tensor&) {
    for (const StageSummary& stage : message.stages) check_hosted(stage.stage);
    if (summaries_) summaries_->deliver(message.stages);
    summaries_.reset();
  }
  void on(const control::ExecutorFailed& message, const at::Tensor&) {
    quit(make_failure(message.bad_input ? Failure::bad_input : Failure::permanent, message.cause));
  }
  void on(const control::ExecutorLeft&, const at::Tensor&) {
    if (over_ || stages_.empty()) {
      quit(caf::exit_reason::normal);
    } else {
      quit(make_failure(Failure::permanent, "executor " + setup_.name + " has left"));
    }
  }
  template <class Other>
  void on(const Other&, const at::Tensor&) {
    throw WireError("an executor says what only a coordinator does");
  }

  void check_hosted(StageIndex stage) const {
    if (!stages_.contains(stage)) {
      throw WireError("executor " + setup_.name + " speaks for stage " + std::to_string(stage.value) +
                      ", which it does not have");
    }
  }

  ExecutorLinkSetup setup_;
  ControlChannel channel_;
  std::shared_ptr<Connection> connection_;
  std::uint64_t number_ = 0;
  std::optional<ExecutorCard> card_;
  std::set<StageIndex> stages_;  // that it runs
  WindowsDone line_;
  std::optional<WindowIndex> end_at_;
  bool targets_given_ = false;  // to the lives that have asked
  std::optional<caf::typed_response_promise<std::vector<StageSummary>>> summaries_;
  bool over_ = false;       // for this life of the executor
  bool dismissed_ = false;  // because others have its stages, or the run goes on without it
  caf::actor_clock::time_point over_since_;
  bool lost_ = false;
};

}  // namespace

ExecutorLinkActor spawn_executor_link(caf::local_actor& parent, ExecutorLinkSetup setup) {
  return parent.spawn<ExecutorLink, caf::monitored + caf::detached>(parent.address(), std::move(setup));
}

}  // namespace zerolock
