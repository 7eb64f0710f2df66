#include "actors/hidden_state_buffer.hpp"

#include <optional>

#include "actors/failure.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

class HiddenStateBuffer final : public HiddenStateBufferActor::base {
 public:
  HiddenStateBuffer(caf::actor_config& config, caf::actor_addr parent, HiddenStateBufferSetup setup)
      : HiddenStateBufferActor::base(config), setup_(std::move(setup)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "hidden-state buffer"; }

  behavior_type make_behavior() override {
    return {
        [this](entry_atom, std::uint64_t session, const Entry& entry) { on_entry(session, entry); },
        [this](blocked_atom, const BatchPosition& position, std::uint64_t bytes) {
          blocked_ = Blocked{position, bytes};
          announce_credit();
          fail_if_blocked();
        },
        [this](connect_atom, std::uint64_t session, const UpstreamActor& upstream) {
          session_ = session;
          upstream_ = upstream;
          if (core_) open();
        },
        [this](take_atom, Incarnation life, const StageWorkerActor& worker) {
          if (life != life_) return;
          demand_ = worker;
          ++demands_;
          serve();
        },
        [this](gradient_atom, const OutputGradient& gradient) {
          send(caf::actor_cast<GradientReceiverActor>(upstream_), gradient_atom::value, gradient);
        },
        [this](rewind_atom, const WindowsDone& committed, Incarnation life) { on_rewind(committed, life); },
        [this](durable_atom, WindowIndex window) {
          if (!core_) return;  // it is about to start from there
          core_->made_durable(window);
          announce_credit();
          fail_if_blocked();
        },
        [this](summary_atom) {
          return core_ ? InboundStatistics{core_->dropped(), core_->held_bytes_peak(),
                                           core_->waiting_entries(), core_->held_entries()}
                       : InboundStatistics{};
        }};
  }

  void on_exit() override {
    upstream_ = nullptr;
    demand_ = nullptr;
  }

 private:
  struct Blocked {
    BatchPosition position;
    std::uint64_t bytes = 0;
  };

  void on_entry(std::uint64_t session, const Entry& entry) {
    if (!core_) return;
    const Reception reception = core_->receive(session, entry);
    ZEROLOCK_INVARIANT(reception != Reception::over_bound, "an upstream keeps to its credit");
    if (reception == Reception::accepted) blocked_.reset();
    serve();
    announce_credit();
  }

  void on_rewind(const WindowsDone& committed, Incarnation life) {
    life_ = life;
    demand_ = nullptr;
    demands_ = 0;
    if (core_) {
      core_->rewind(committed);
      return;
    }
    setup_.durable = committed;
    core_.emplace(setup_);
    if (upstream_) open();
  }

  void open() {
    core_->open_session(session_);
    announced_ = {};
    send(upstream_, hello_atom::value, BoundaryHello{session_, core_->next_expected()},
         EntryReceiverActor{caf::actor_cast<EntryReceiverActor>(this)});
    announce_credit();
  }

  void serve() {
    if (!core_) return;
    for (; demands_ > 0; --demands_) {
      const Entry* entry = core_->take();
      if (entry == nullptr) return;
      send(demand_, entry_atom::value, Entry(*entry));
      core_->handed_over();
      announce_credit();
    }
  }

  void announce_credit() {
    if (!upstream_ || !core_ || core_->credit() == announced_) return;
    // An upstream that lacks bytes hears of each one.
    if (!blocked_ && !core_->worth_announcing(announced_)) return;
    announced_ = core_->credit();
    send(upstream_, credit_atom::value, session_, announced_);
  }

  void fail_if_blocked() {
    if (!core_ || !blocked_ || !core_->blocked_for_good(blocked_->position, blocked_->bytes)) return;
    quit(make_failure(
        Failure::permanent,
        "its inbound buffer holds " + std::to_string(core_->held_bytes()) + " of at most " +
            std::to_string(setup_.bytes_max) + " bytes and has no room for " + to_string(blocked_->position) +
            " (" + std::to_string(blocked_->bytes) +
            " bytes), which the next checkpoint needs; allow more bytes, checkpoint more often, or make "
            "windows smaller"));
  }

  HiddenStateBufferSetup setup_;
  std::optional<HiddenStateBufferCore> core_;
  UpstreamActor upstream_;
  std::uint64_t session_ = 0;
  EntryCredit announced_;
  Incarnation life_;
  StageWorkerActor demand_;    // the worker that has asked for entries
  std::uint64_t demands_ = 0;  // how many it has not been given yet
  std::optional<Blocked> blocked_;
};

}  // namespace

HiddenStateBufferActor spawn_hidden_state_buffer(caf::local_actor& parent, HiddenStateBufferSetup setup) {
  return parent.spawn<HiddenStateBuffer, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
