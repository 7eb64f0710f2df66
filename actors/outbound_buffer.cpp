#include "actors/outbound_buffer.hpp"

#include <optional>
#include <vector>

#include "actors/failure.hpp"

namespace zerolock {
namespace {

class OutboundBuffer final : public OutboundBufferActor::base {
 public:
  OutboundBuffer(caf::actor_config& config, caf::actor_addr parent, OutboundBufferSetup setup)
      : OutboundBufferActor::base(config), bytes_max_(setup.bytes_max), core_(std::move(setup)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "outbound buffer"; }

  behavior_type make_behavior() override {
    return {[this](hello_atom, const BoundaryHello& hello, const EntryReceiverActor& receiver) {
              on_hello(hello, receiver);
            },
            [this](credit_atom, std::uint64_t session, const EntryCredit& credit) {
              if (session != session_) return;
              core_.credit(credit);
              push();
              tell_worker();
            },
            [this](put_atom, const Entry& entry) { on_put(entry); },
            [this](attach_atom, Incarnation, const StageWorkerActor& worker) {
              worker_ = worker;
              told_.reset();
              tell_worker();
            },
            [this](gradient_atom, const OutputGradient& gradient) {
              if (worker_) send(worker_, gradient_atom::value, gradient);
            },
            [this](line_atom, WindowIndex line) {
              core_.recovery_line(line);
              tell_worker();
            },
            [this](lacks_atom) -> caf::result<BatchPosition> {
              if (core_.next()) return *core_.next();
              auto promise = make_response_promise<BatchPosition>();
              asked_.push_back(promise);
              return promise;
            },
            [this](summary_atom) {
              return OutboundStatistics{core_.unsent_entries(), core_.held_entries()};
            }};
  }

  void on_exit() override {
    receiver_ = nullptr;
    worker_ = nullptr;
  }

 private:
  void on_hello(const BoundaryHello& hello, const EntryReceiverActor& receiver) {
    if (hello.session < session_) return;
    session_ = hello.session;
    receiver_ = receiver;
    blocked_.reset();
    if (!core_.resume(hello.first_lacking)) {
      quit(make_failure(Failure::transient, "the next stage lacks " + to_string(hello.first_lacking) +
                                                ", which has to be made again"));
      return;
    }
    for (auto& promise : asked_) promise.deliver(*core_.next());
    asked_.clear();
    tell_worker();
  }

  void on_put(const Entry& entry) {
    if (!core_.put(entry)) {
      quit(make_failure(Failure::permanent, "its outbound buffer holds " +
                                                std::to_string(core_.held_bytes()) + " of at most " +
                                                std::to_string(bytes_max_) + " bytes and has no room for " +
                                                to_string(entry.position) + " (" +
                                                std::to_string(entry.bytes()) + " bytes); allow more bytes"));
      return;
    }
    push();
    tell_worker();
  }

  void push() {
    while (const Entry* entry = core_.next_to_send())
      send(receiver_, entry_atom::value, session_, Entry(*entry));
    const Entry* lacking = core_.lacking_bytes();
    if (lacking == nullptr || blocked_ == lacking->position) return;
    blocked_ = lacking->position;
    send(receiver_, blocked_atom::value, lacking->position, std::uint64_t{lacking->bytes()});
  }

  /// Only what may change the worker's mind: more entries once it has used half of what it could have, and
  /// any change of bytes or line.
  void tell_worker() {
    if (!worker_ || !core_.next()) return;
    const OutputAllowance allowance = core_.allowance();
    if (told_ && !worth_telling(allowance)) return;
    told_ = allowance;
    send(worker_, allow_atom::value, allowance);
  }

  [[nodiscard]] bool worth_telling(const OutputAllowance& now) const {
    if (told_->allowed_bytes != now.allowed_bytes || told_->recovery_line != now.recovery_line) return true;
    if (now.allowed_entries < told_->allowed_entries) return true;
    const std::uint64_t accepted = now.accepted_entries;
    const std::uint64_t known = told_->allowed_entries > accepted ? told_->allowed_entries - accepted : 0;
    return now.allowed_entries > told_->allowed_entries && 2 * known <= now.allowed_entries - accepted;
  }

  std::uint64_t bytes_max_;
  OutboundBufferCore core_;
  EntryReceiverActor receiver_;
  StageWorkerActor worker_;
  std::uint64_t session_ = 0;
  std::optional<BatchPosition> blocked_;  // of which the downstream has been told
  std::optional<OutputAllowance> told_;
  std::vector<caf::typed_response_promise<BatchPosition>> asked_;
};

}  // namespace

OutboundBufferActor spawn_outbound_buffer(caf::local_actor& parent, OutboundBufferSetup setup) {
  return parent.spawn<OutboundBuffer, caf::monitored>(parent.address(), std::move(setup));
}

}  // namespace zerolock
